"""Faults planted for real on runs of `sojourn run`, and what `why` says of them, with every probe and without each."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests import reliability
from tests.verdicts import __main__ as campaign
from tests.verdicts import report, trial

pytestmark = pytest.mark.lab
QUICK = ["memory_of_the_main_process", "disk_full", "killed_by_hand", "read_only", "container_restart"]


@pytest.mark.parametrize("fault", QUICK)
def test_a_real_fault_gives_its_own_verdict_and_without_a_probe_that_or_none(fault: str) -> None:
    if os.getuid():
        pytest.skip("needs root")
    told = campaign.apart(fault, 1)
    if str(told["wrong"]).startswith("missing"):
        pytest.skip(told["wrong"])
    assert not told["wrong"], told


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_twenty_times_each(tmp_path: Path) -> None:
    """Writes docs/reliability.md. SOJOURN_SOAK_TRIALS: another number; SOJOURN_SOAK_LEDGER: a file to go on from."""
    count, began_s = int(os.environ.get("SOJOURN_SOAK_TRIALS", "20")), time.monotonic()
    ledger = Path(os.environ.get("SOJOURN_SOAK_LEDGER", tmp_path / "verdicts.jsonl"))
    campaign.campaign(list(trial.FAULTS), count, ledger, 1e9)
    rows = campaign.read(ledger)
    reliability.put(report.TITLE, report.lines(rows), time.monotonic() - began_s)
    assert not [row for row in rows if row["wrong"]]
