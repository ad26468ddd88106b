"""Whatever is killed, and however the line fails: the same commands end the same, and nothing is lost. Replay one with
`.venv/bin/python -m tests.crash --seed N` (`--kind line`).
"""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import reliability
from tests.crash import campaign, report
from tests.crash.hand import Stage, Verdict
from tests.violation import held


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with campaign.stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def judge(verdicts: list[Verdict]) -> None:
    """Fail with what happened in the broken ones, and how to see it again. What ran out of time twice says nothing."""
    broken = [one for one in verdicts if one.breaches]
    story = "\n\n".join("\n".join([str(one), *one.story]) for one in broken)
    held(all(one.cut for one in broken), story)
    assert not broken, story


@pytest.mark.trials(test=2, campaign=200, soak=1000)
@pytest.mark.timeout(6 * 3600)
def test_the_same_commands_end_the_same_whatever_is_killed(trial_count: int, on: Stage, tmp_path: Path) -> None:
    began_s = time.monotonic()
    verdicts = campaign.campaign(range(trial_count), on, tmp_path)
    judge(verdicts)
    assert campaign.total(verdicts, "kills").total() >= trial_count  # the schedule did fall
    reliability.put("Anything is killed at any time", report.kills(verdicts), time.monotonic() - began_s)


@pytest.mark.trials(test=5, campaign=200, soak=1000)
@pytest.mark.timeout(6 * 3600)
def test_no_fault_of_the_line_starts_a_second_training_or_is_called_a_death(
    trial_count: int, on: Stage, tmp_path: Path
) -> None:
    """`trial_count`: faults that took effect. A slow machine gives fewer commands in a trial."""
    began_s = time.monotonic()
    verdicts: list[Verdict] = []
    at_once = min(campaign.SIDE_BY_SIDE, -(-trial_count // 5))  # each has about five
    for first in itertools.count(0, at_once):
        seeds = range(first, first + at_once)
        verdicts += campaign.campaign(seeds, on, tmp_path, campaign.line)
        if campaign.total(verdicts, "faults").total() >= trial_count:
            break
    judge(verdicts)
    held({one.attempts for one in verdicts} == {1}, "more than one training")
    reliability.put("The connection fails", report.line(verdicts), time.monotonic() - began_s)
