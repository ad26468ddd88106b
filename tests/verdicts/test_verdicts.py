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
FEW, AT_ONCE = 2, 4
ONCE = ["memory_on_version_2"]  # where this machine has no such controller, in a box with a kernel of its own
SLOW = ["reboot", "collective_hangs", "line_cut", "collective_times_out"]  # these first, so that none is waited for


@pytest.mark.timeout(1800)
def test_real_faults_give_their_own_verdict_and_without_a_probe_that_or_none(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root")
    ledger = tmp_path / "verdicts.jsonl"
    campaign.campaign(sorted(trial.FAULTS, key=lambda fault: fault not in SLOW), FEW, ledger, 1e9, AT_ONCE, ONCE)
    rows = campaign.read(ledger)
    assert len(rows) == FEW * len(trial.FAULTS) - len(ONCE)
    missing = {row["wrong"] for row in rows if str(row["wrong"]).startswith("missing")}
    assert not [row for row in rows if row["wrong"] and row["wrong"] not in missing]
    if missing:
        pytest.skip("; ".join(sorted(missing)))


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
