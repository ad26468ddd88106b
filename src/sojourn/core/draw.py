"""What a cell of a random search draws: each value depends only on the seed, the cell's number and the variable's name.

So a larger count or another variable leaves existing values unchanged. Pure.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass

KINDS = ("uniform", "loguniform", "int")
_RANGE = re.compile(r"(uniform|loguniform|int)\s*\(\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*\)")
_DIGITS = 6  # significant digits of a drawn number: what a person would write, and enough to tell cells apart


@dataclass(frozen=True)
class Range:
    """`kind`(low, high), `kind` one of KINDS: both ends can be drawn, up to rounding; `int` draws whole numbers."""

    kind: str
    low: float
    high: float


# What a variable draws from: a range, or one of several texts.
Space = Range | tuple[str, ...]


def read_range(text: str) -> Range:
    """The range of `loguniform(1e-5, 1e-2)`. Raises: ValueError with what to write instead."""
    found = _RANGE.fullmatch(text.strip())
    try:
        low, high = (float(found[2]), float(found[3])) if found else (0.0, 0.0)
    except ValueError:
        found = None
    if not found or not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{text!r} is no range (write uniform(0, 1), loguniform(1e-5, 1e-2), int(1, 8), or a list)")
    if not low < high:
        raise ValueError(f"{text!r} has no numbers between its ends: the lower one comes first")
    if found[1] == "loguniform" and low <= 0:
        raise ValueError(f"{text!r}: both ends of loguniform are above 0")
    if found[1] == "int" and not (low.is_integer() and high.is_integer()):
        raise ValueError(f"{text!r}: both ends of int are whole numbers")
    return Range(found[1], low, high)


def is_range(text: str) -> bool:
    """Whether it is meant as a range: a name and brackets."""
    return bool(re.fullmatch(r"\s*[a-z]+\s*\(.*\)\s*", text))


def draw(space: Space, seed: int, cell: int, name: str) -> str:
    """The value of variable `name` in cell number `cell`, as text.

    The first 53 bits of SHA-256 over seed, number and name, read as a number u in [0, 1), decide.
    """
    digest = hashlib.sha256(f"{seed}\0{cell}\0{name}".encode()).digest()
    u = (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)
    if isinstance(space, tuple):
        return space[int(u * len(space))]
    if space.kind == "int":
        return str(int(space.low) + int(u * (space.high - space.low + 1)))
    if space.kind == "uniform":
        return f"{space.low + u * (space.high - space.low):.{_DIGITS}g}"
    return f"{math.exp(math.log(space.low) + u * (math.log(space.high) - math.log(space.low))):.{_DIGITS}g}"
