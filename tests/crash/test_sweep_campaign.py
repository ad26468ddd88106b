"""Whatever fails under a sweep: no cell is lost, none is doubled, none is falsely verified. Replay one with
`.venv/bin/python -m tests.crash --kind sweep --seed N`.
"""

import os
import time
from pathlib import Path

import pytest

from tests import reliability
from tests.crash import campaign, report
from tests.crash.sweep_trial import KINDS, sweep_schedule
from tests.crash.trial import Verdict
from tests.lab import lab

FEW = 4
NEEDS = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "a laboratory")


def stories(verdicts: list[Verdict]) -> str:
    """The broken ones, each with what happened."""
    return "\n\n".join("\n".join([str(one), *one.story]) for one in verdicts if one.breaches)


def test_a_seed_means_the_same_for_ever_and_all_kinds_of_faults_come() -> None:
    assert sweep_schedule(7) == sweep_schedule(7) != sweep_schedule(8)
    assert {fault.kind for seed in range(50) for fault in sweep_schedule(seed).faults} == set(KINDS)
    assert {blow.how for seed in range(50) for blow in sweep_schedule(seed).blows} == {
        "before", "within", "after", "client", "tree"
    }  # fmt: skip


@pytest.mark.lab
@NEEDS
@pytest.mark.timeout(1200)
def test_no_cell_is_lost_doubled_or_falsely_verified_whatever_fails(tmp_path: Path) -> None:
    with campaign.stage(trainings=False) as on:
        verdicts = campaign.campaign(range(FEW), on, tmp_path, campaign.sweep)
    assert not stories(verdicts), stories(verdicts)
    assert campaign.total(verdicts, "faults").total() >= FEW  # the schedule did fall


@pytest.mark.lab
@NEEDS
@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_five_hundred_sweeps_under_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes its section of docs/reliability.md. SOJOURN_SOAK_TRIALS: how many, 500 at most."""
    count, began_s = min(500, int(os.environ.get("SOJOURN_SOAK_TRIALS", "500"))), time.monotonic()

    def tell(one: Verdict) -> None:
        with capsys.disabled():  # a silent hour would be a bug
            print(one, flush=True)

    with campaign.stage(trainings=False) as on:
        verdicts = campaign.campaign(range(1000, 1000 + count), on, tmp_path, campaign.sweep, tell)
    reliability.put("Anything fails under a sweep", report.sweep(verdicts), time.monotonic() - began_s)
    assert not stories(verdicts), stories(verdicts)
