"""Placement of cells on boxes: the longest first, each where it would finish earliest. Pure.

Source: Graham 1969, "Bounds on multiprocessing timing anomalies": on equal slots this takes at most 4/3 - 1/(3 slots)
of the optimum; Kovacs 2010, "New approximation bounds for LPT scheduling": at most 1.578 of it on slots of different
speeds.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

SIBLINGS = 200  # the newest finished cells; older ones hardly change the estimate


@dataclass(frozen=True)
class Lanes:
    """One box: `slots` cells at once, each `speed` times as fast as the slowest box, with `load` of work there."""

    box: str
    slots: int = 1
    speed: float = 1.0
    load: float = 0.0


@dataclass(frozen=True)
class Sibling:
    """A finished cell. `seconds`: its time on a box of speed 1."""

    values: Mapping[str, str]
    seconds: float
    epochs: int | None = None


@dataclass(frozen=True)
class Wanted:
    """A cell to place, with what its cost depends on: its values, and its epochs if stated."""

    values: Mapping[str, str] = field(default_factory=dict)
    epochs: int | None = None


def place(costs: Mapping[str, float], boxes: Sequence[Lanes]) -> dict[str, str]:
    """The box of each cell, the longest cell first, the best order for a box's queue too.

    Cells of one cost keep their order; of boxes that would finish together the first is taken.
    Raises: ValueError for no slot, a speed that is not above 0, or a cost below 0.
    """
    if any(box.slots < 1 or not box.speed > 0 for box in boxes) or (costs and not boxes):
        raise ValueError("every box needs a slot and a speed")
    if any(cost < 0 for cost in costs.values()):
        raise ValueError("a cost is below 0")
    # Among slots of one speed, only the first to be free can be the best.
    free: dict[float, list[tuple[float, int, str]]] = {}
    for order, box in enumerate(boxes):
        begin = box.load / box.slots / box.speed
        free.setdefault(box.speed, []).extend([(begin, order, box.box)] * box.slots)
    for heap in free.values():
        heapq.heapify(heap)
    placed = {}
    for cell in sorted(costs, key=lambda name: -costs[name]):
        done, order, speed = min((heap[0][0] + costs[cell] / speed, heap[0][1], speed) for speed, heap in free.items())
        placed[cell] = free[speed][0][2]
        heapq.heapreplace(free[speed], (done, order, placed[cell]))
    return placed


def makespan(costs: Mapping[str, float], placed: Mapping[str, str], boxes: Sequence[Lanes]) -> float:
    """When the last cell finishes, if each box takes its cells in `placed` order as slots become free."""
    ends = {box.box: [box.load / box.slots / box.speed] * box.slots for box in boxes}
    speeds = {box.box: box.speed for box in boxes}
    for cell, box in placed.items():
        heapq.heapreplace(ends[box], ends[box][0] + costs[cell] / speeds[box])
    return max((max(slots) for slots in ends.values()), default=0.0)


def expected(cells: Mapping[str, Wanted], done: Sequence[Sibling]) -> dict[str, float]:
    """The cost of each cell: seconds on a box of speed 1, as its nearest finished siblings took; if none has finished,
    its stated epochs (1 if only others state theirs); else the same cost for all.

    The nearest share the most values. If both state epochs, the time is per epoch.
    """
    recent = done[-SIBLINGS:]
    return {name: _seconds(cell, recent) if recent else float(cell.epochs or 1) for name, cell in cells.items()}


def _seconds(cell: Wanted, done: Sequence[Sibling]) -> float:
    shared = [len(cell.values.items() & one.values.items()) for one in done]
    most = max(shared)
    nearest = [one for one, count in zip(done, shared, strict=True) if count == most]
    per_epoch = [one.seconds / one.epochs for one in nearest if one.epochs]
    if cell.epochs and per_epoch:
        return median(per_epoch) * cell.epochs
    return median(one.seconds for one in nearest)


def speeds(done: Sequence[tuple[str, float, float]]) -> dict[str, float]:
    """How fast each box is, the slowest being 1, from (box, expected cost, seconds taken) of each finished cell.

    A box without finished cells is left out.
    """
    rates: dict[str, list[float]] = {}
    for box, cost, seconds in done:
        if cost > 0 and seconds > 0:
            rates.setdefault(box, []).append(cost / seconds)
    middle = {box: median(found) for box, found in rates.items()}
    slowest = min(middle.values(), default=1.0)
    return {box: rate / slowest for box, rate in middle.items()}
