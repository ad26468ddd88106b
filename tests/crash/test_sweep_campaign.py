"""Whatever fails under a sweep: no cell is lost, none is doubled, none is falsely verified. Replay one with
`.venv/bin/python -m tests.crash --kind sweep --seed N`.
"""

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import reliability
from tests.crash import campaign, report
from tests.crash.hand import Stage, Verdict
from tests.crash.sweep_trial import KINDS, sweep_schedule
from tests.lab import lab

FEW = 50  # a tenth of the soak
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


def test_a_campaign_goes_on_where_it_was_cut_off_and_plays_alone_what_ran_out_of_time(tmp_path: Path) -> None:
    played: list[int] = []

    def play(seed: int, on: Stage, folder: Path) -> Verdict:
        played.append(seed)
        is_late = seed in (2, 3) and "alone" not in folder.name or seed == 3
        return Verdict(seed, kills=Counter({"by keeper": 1}), commands=seed, cut="no end" if is_late else "")

    on, record = Stage(tmp_path, tmp_path, {}, "code"), tmp_path / "record.jsonl"
    first = campaign.campaign(range(4), on, tmp_path / "first", play, record=record)
    assert sorted(played) == [0, 1, 2, 2, 3, 3]
    assert [one.seed for one in first if one.breaches] == [3]  # out of time once more
    played.clear()
    again = campaign.campaign(range(6), on, tmp_path / "again", play, record=record)
    assert sorted(played) == [4, 5] and [one.seed for one in again] == list(range(6))
    assert campaign.total(again, "kills") == {"by keeper": 6}
    assert not campaign.campaign(range(9, 12), on, tmp_path / "late", play, for_s=-1)


@pytest.mark.lab
@NEEDS
@pytest.mark.timeout(2400)
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
    """Writes its section of docs/reliability.md. SOJOURN_SOAK_TRIALS: how many, 500 at most. SOJOURN_SOAK_RECORD: the
    record of a campaign that was cut off, to go on with (`python -m tests.crash --record` plays parts of one).
    """
    count, began_s = min(500, int(os.environ.get("SOJOURN_SOAK_TRIALS", "500"))), time.monotonic()
    record = os.environ.get("SOJOURN_SOAK_RECORD")

    def tell(one: Verdict) -> None:
        with capsys.disabled():  # a silent hour would be a bug
            print(one, flush=True)

    seeds = range(1000, 1000 + count)
    with campaign.stage(trainings=False) as on:
        verdicts = campaign.campaign(seeds, on, tmp_path, campaign.sweep, tell, record=Path(record) if record else None)
    reliability.put("Anything fails under a sweep", report.sweep(verdicts), time.monotonic() - began_s)
    assert not stories(verdicts), stories(verdicts)
