"""Who is killed, by which signal, at which moment: from a seed, and the way it is done."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kills.places import Place
from tests.kills.projects import Project

# How often of twenty. `process`: one process of the training's group, as the oom killer takes it; the group else.
_WHOM = {"training": 7, "process": 4, "keeper": 4, "both": 5}
_SIGNALS = {signal.SIGKILL: 14, signal.SIGTERM: 6}
_MOMENTS = {"start": 3, "step": 8, "save": 9}
_START_S, _SAVE_S = 4.0, 0.2  # a start lasts about so long, and a save


@dataclass(frozen=True)
class Strike:
    """`after`: 0 to 1, how far into its start, into the time between two saves (half as much again), into a save."""

    whom: str
    number: signal.Signals
    moment: str
    after: float

    def __str__(self) -> str:
        return f"{self.number.name} to {self.whom} at a {self.moment} + {self.after:.2f}"


def schedule(seed: int, count: int) -> list[Strike]:
    """The same for the same seed."""
    chance = random.Random(seed)

    def one_of(odds: dict[Any, int]) -> Any:
        return chance.choices(list(odds), list(odds.values()))[0]

    return [Strike(one_of(_WHOM), one_of(_SIGNALS), one_of(_MOMENTS), chance.random()) for _ in range(count)]


def wait_for_moment(strike: Strike, project: Project, copy: Path, has_begun: Callable[[], bool]) -> None:
    """Of an attempt whose working copy is `copy` and which has made its first step if `has_begun`; an attempt that
    ends first is not waited for for ever. A moment within a save begins when one of its files changes.
    """
    if strike.moment == "start":
        _wait(lambda: copy.exists(), 60)
        time.sleep(strike.after * _START_S)
        return
    _wait(has_begun, 120)
    if strike.moment == "step":
        time.sleep(strike.after * 1.5 * project.every_s)
        return
    before = _written(project, copy)
    _wait(lambda: _written(project, copy) != before, 10 * project.every_s, 0.001)
    time.sleep(strike.after**2 * _SAVE_S)


def land(strike: Strike, place: Place, keeper: int, payload: int, chance: random.Random) -> list[int]:
    """Send it; the processes that it was sent to, by this machine's numbers. `keeper`, `payload`: by the place's."""
    victims = [place.pid(keeper)] if strike.whom in ("keeper", "both") else []
    first = place.pid(payload)
    if first and strike.whom != "keeper":
        group = sorted(place.members(os.getpgid(first)))
        if strike.whom == "process":
            inner = [pid for pid in group if pid != first]
            group = [chance.choice(inner or group)]
        victims += group
    sent = []
    for pid in filter(None, victims):
        try:
            os.kill(pid, strike.number)
            sent.append(pid)
        except ProcessLookupError:
            continue
    return sent


def _written(project: Project, copy: Path) -> list[tuple[str, int, int]]:
    found = []
    for path in (path for pattern in project.saves for path in copy.glob(pattern)):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return sorted(found)


def _wait(holds: Callable[[], bool], within_s: float, each_s: float = 0.05) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds() and time.monotonic() < deadline_s:
        time.sleep(each_s)
