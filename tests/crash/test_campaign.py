"""Whatever is killed, and however the line fails: the same commands end the same, and nothing is lost. Replay one with
`.venv/bin/python -m tests.crash --seed N` (`--kind line`).
"""

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import reliability
from tests.crash import campaign, report
from tests.crash.hand import Stage, Verdict

BATCHES, EACH = 5, 20
LINES, MOST_LINES, LEAST_FAULTS, LEAST_KINDS = 8, 32, 100, 9


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with campaign.stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def stories(verdicts: list[Verdict]) -> str:
    """The broken ones, each with what happened and how to see it again."""
    return "\n\n".join("\n".join([str(one), *one.story]) for one in verdicts if one.breaches)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_same_commands_end_the_same_whatever_is_killed(batch: int, on: Stage, tmp_path: Path) -> None:
    verdicts = campaign.campaign(range(batch * EACH, (batch + 1) * EACH), on, tmp_path)
    assert not stories(verdicts), stories(verdicts)
    assert campaign.total(verdicts, "kills").total() >= EACH  # the schedule did fall


@pytest.mark.timeout(1200)
def test_no_fault_of_the_line_starts_a_second_training_or_is_called_a_death(on: Stage, tmp_path: Path) -> None:
    verdicts: list[Verdict] = []
    faults: Counter[str] = Counter()
    for first in range(0, MOST_LINES, LINES):  # where the machine is slow fewer commands are given, and fewer fail
        verdicts += campaign.campaign(range(first, first + LINES), on, tmp_path, campaign.line)
        faults = campaign.total(verdicts, "faults")
        if faults.total() >= LEAST_FAULTS and len({name.split()[1] for name in faults}) >= LEAST_KINDS:
            break
    assert not stories(verdicts), stories(verdicts)
    assert {one.attempts for one in verdicts} == {1}
    assert faults.total() >= LEAST_FAULTS and len({name.split()[1] for name in faults}) >= LEAST_KINDS, faults


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_a_thousand_trials_and_a_thousand_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes docs/reliability.md. SOJOURN_SOAK_TRIALS: how many trials, and how many faults of the line."""
    count, began_s = int(os.environ.get("SOJOURN_SOAK_TRIALS", "1000")), time.monotonic()

    def tell(one: Verdict) -> None:
        with capsys.disabled():  # a silent hour would be a bug
            print(one, flush=True)

    with campaign.stage() as on:
        crashes = campaign.campaign(range(1000, 1000 + count), on, tmp_path, tell=tell)
        reliability.put("Anything is killed at any time", report.kills(crashes), time.monotonic() - began_s)
        lines: list[Verdict] = []
        began_s = time.monotonic()
        for first in itertools.count(1000, 2 * campaign.SIDE_BY_SIDE):
            seeds = range(first, first + 2 * campaign.SIDE_BY_SIDE)
            lines += campaign.campaign(seeds, on, tmp_path, campaign.line, tell)
            if campaign.total(lines, "faults").total() >= count:
                break
    reliability.put("The line fails", report.line(lines), time.monotonic() - began_s)
    assert not stories([*crashes, *lines]), stories([*crashes, *lines])
    assert {one.attempts for one in lines} == {1}
