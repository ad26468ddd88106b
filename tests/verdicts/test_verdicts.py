"""Faults planted for real on runs of `sojourn run`, and what `why` says of them, with every probe and without each."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests import reliability
from tests.verdicts import __main__ as campaign
from tests.verdicts import report, trial

pytestmark = pytest.mark.lab
AT_ONCE = 4
SLOW = ["reboot", "collective_hangs", "line_cut", "collective_times_out"]  # these first, so that none is waited for
QUICK = ["memory_of_the_main_process", "segfault"]


def rows_of(faults: list[str], count: int, ledger: Path) -> list[dict[str, Any]]:
    """The trials of these faults; a fault that this machine cannot plant skips the test."""
    if os.getuid():
        pytest.skip("needs root")
    campaign.campaign(faults, count, ledger, 1e9, AT_ONCE)
    rows = campaign.read(ledger)
    if missing := {row["wrong"] for row in rows if str(row["wrong"]).startswith("missing")}:
        pytest.skip("; ".join(sorted(missing)))
    assert len(rows) == count * len(faults)
    return rows


def test_a_real_fault_gives_its_own_verdict_and_without_a_probe_that_or_none(tmp_path: Path) -> None:
    rows = rows_of(QUICK, 1, tmp_path / "verdicts.jsonl")
    assert not [row for row in rows if row["wrong"]]


@pytest.mark.campaign
@pytest.mark.trials(campaign=2, soak=20)
@pytest.mark.timeout(12 * 3600)
def test_real_faults_give_their_own_verdicts(trial_count: int, tmp_path: Path) -> None:
    """`trial_count`: of each fault. Writes docs/reliability.md."""
    began_s = time.monotonic()
    faults = sorted(trial.FAULTS, key=lambda fault: fault not in SLOW)
    rows = rows_of(faults, trial_count, tmp_path / "verdicts.jsonl")
    reliability.put(report.TITLE, report.lines(rows), time.monotonic() - began_s)
    assert not [row for row in rows if row["wrong"]]
