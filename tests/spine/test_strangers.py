"""Scripts that know nothing of sojourn: the job that `init` proposes survives kills and comes home, without an edit."""

from __future__ import annotations

import random
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.spine.conftest import Desk, wait_for
from tests.violation import Violation

PROJECTS = Path(__file__).parents[1] / "projects"
_TORCH, _ADAPTERS = pytest.mark.torch, pytest.mark.adapters
# Its name -> how its log says a step (from 1 on), and the steps between two saves.
RUNS = {
    "made": (r"step (\d+)/", 5, ()),
    "jax_regression": (r"step (\d+)/", 5, ()),
    "imagenet": (r"Epoch: \[(\d+)\]\[ *(\d+)/", 10, (_TORCH,)),
    "chargpt": (r"iter (\d+):", 5, (_TORCH,)),
    "accelerate_text": (r"step (\d+) loss", 15, (_ADAPTERS,)),
    "chat": (r"'loss': .*'epoch': '?([\d.]+)", 10, (_ADAPTERS,)),
}


def steps(name: str, text: str) -> list[int]:
    found = []
    for hit in re.finditer(RUNS[name][0], text):
        if name == "imagenet":
            found.append(int(hit[1]) * 10 + int(hit[2]))
        else:
            found.append(round(float(hit[1]) * 80) if name == "chat" else int(hit[1]))
    return found


def taken_home(desk: Desk, name: str, kills: int, seed: int) -> None:
    """`init`, `run`, a SIGKILL after each attempt's first save, the same command again, then home and let go."""
    chance = random.Random(seed)
    shutil.rmtree(desk.project)
    shutil.copytree(PROJECTS / name, desk.project)
    desk("init", "--name", "theirs")
    reached = 0
    for attempt in range(1, kills + 2):
        desk("run")
        if attempt > kills:
            break
        every = RUNS[name][1]
        wait_for(lambda: max(steps(name, desk.log("theirs", attempt)) or [0]) > reached + every)  # noqa: B023
        time.sleep(chance.uniform(0, 0.5))
        desk.kill_training("theirs")
        desk.is_left("theirs")
        reached = max(steps(name, desk.log("theirs", attempt)))
    row = desk.final("theirs")
    assert row["state"] == "succeeded", (row, desk.log("theirs", kills + 1)[-2000:])
    before = steps(name, desk.log("theirs", 1))
    for attempt in range(2, kills + 2):
        again = steps(name, desk.log("theirs", attempt))
        if again and max(before) - again[0] > RUNS[name][1] + 1:
            raise Violation(f"{name}: attempt {attempt} began at {again[0]}, after {max(before)}")
        before += again
    desk("pull", "theirs")
    desk("down", "local", "--confirm", "local")


@pytest.mark.campaign
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, (_, _, marks) in RUNS.items()])
def test_a_stranger_survives_three_kills_and_comes_home(name: str, desk: Desk) -> None:
    taken_home(desk, name, 3, seed=1)


def test_a_stranger_survives_a_kill(desk: Desk) -> None:
    taken_home(desk, "made", 1, seed=2)
