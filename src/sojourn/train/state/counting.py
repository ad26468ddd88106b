"""The number that `enumerate` gives a loop over batches: it continues on resume, like the batches.

`enumerate` counts from its start whatever it reads, so a pass resumed in its middle would be counted from 0 again. If
the layout of CPython's own object matches that of a test object, its count is set.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Iterator

_DEEPEST, _MOST = 4, 500  # a progress bar or two between the loop and its batches


def find(iterator: Any, everywhere: bool) -> Any:
    """The `enumerate` that reads from `iterator`, also through others; None if there is none.

    A new one is found among the youngest objects; `everywhere`: search all, which takes a moment.
    """
    generations = (0, 1, 2) if everywhere else (0, 1)
    for generation in generations:
        for one in gc.get_objects(generation=generation):
            if type(one) is enumerate and _reads(one, iterator):
                return one
    return None


def count(one: Any) -> int:
    """Its next number."""
    return int(one.__reduce__()[1][1])


def move(one: Any, to: int) -> bool:
    """Make this its next number. False if that is impossible here."""
    if sys.implementation.name != "cpython" or not _is_as_known():
        return False
    ctypes.c_ssize_t.from_address(id(one) + object.__basicsize__).value = to
    return count(one) == to


def _is_as_known() -> bool:
    trial: enumerate[Any] = enumerate((), 12345)
    place = ctypes.c_ssize_t.from_address(id(trial) + object.__basicsize__)
    if place.value != 12345:
        return False
    place.value = 54321
    return count(trial) == 54321


def _reads(one: Any, iterator: Any) -> bool:
    """Whether its items come from `iterator`, through at most a few others."""
    level, seen = [one], {id(one)}
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for outer in level:
            for inner in _holds(outer):
                if inner is iterator:
                    return True
                if id(inner) not in seen and len(seen) < _MOST and _may_iterate(inner):
                    seen.add(id(inner))
                    below.append(inner)
        level = below
    return False


def _holds(value: Any) -> Iterator[Any]:
    yield from getattr(value, "__dict__", {}).values()
    frame = getattr(value, "gi_frame", None)
    if frame is not None:  # the collector sees no variables of a running generator
        yield from list(frame.f_locals.values())
        yield value.gi_yieldfrom
    yield from gc.get_referents(value)


def _may_iterate(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__next__") or (hasattr(kind, "__iter__") and hasattr(value, "__dict__"))
