"""Whatever fails under a sweep: no cell is lost, none is doubled, none is falsely verified. Replay one with
`.venv/bin/python -m tests.crash --kind sweep --seed N`.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from tests import reliability
from tests.crash import campaign, report
from tests.crash.hand import Stage, Verdict
from tests.crash.sweep_trial import KINDS, sweep_schedule
from tests.crash.test_campaign import judge
from tests.lab import lab

NEEDS = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "a laboratory")


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


@pytest.mark.campaign
@pytest.mark.lab
@NEEDS
@pytest.mark.trials(campaign=50, soak=500)
@pytest.mark.timeout(6 * 3600)
def test_no_cell_is_lost_doubled_or_falsely_verified_whatever_fails(trial_count: int, tmp_path: Path) -> None:
    began_s = time.monotonic()
    with campaign.stage(trainings=False) as on:
        verdicts = campaign.campaign(range(trial_count), on, tmp_path, campaign.sweep)
    judge(verdicts)
    assert campaign.total(verdicts, "faults").total() >= trial_count  # the schedule did fall
    reliability.put("Anything fails under a sweep", report.sweep(verdicts), time.monotonic() - began_s)
