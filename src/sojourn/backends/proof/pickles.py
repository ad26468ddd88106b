"""A pickle's calls, found by dissecting it without running it."""

from __future__ import annotations

import os
import pickletools
from typing import NamedTuple

OLD_LIMIT_BYTES = 4 << 20
_NAMED = {"GLOBAL", "INST"}  # opcodes with a global's name in their argument
_CALLS = {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}  # opcodes that reach things without a name


class Taken(NamedTuple):
    """`names`: its globals, module.name each; `end`: where it stops; `error`: why it is invalid, "" if valid."""

    names: tuple[str, ...]
    end: int
    error: str


def take_apart(data: bytes) -> Taken:
    """Every global that a pickle names, as far as it is valid."""
    names: dict[str, None] = {}
    strings: list[str] = []
    end = 0
    try:
        for op, argument, at in pickletools.genops(data):
            end = at or 0
            if op.name in _NAMED:
                names[".".join(str(argument).split(" ", 1))] = None
            elif op.name == "STACK_GLOBAL":
                names[".".join(strings[-2:]) or "?"] = None
            elif op.name in _CALLS:
                names[op.name.lower()] = None
            elif isinstance(argument, str):
                strings = [*strings[-1:], argument]
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        return Taken(tuple(names), end, str(error)[:200] or type(error).__name__)
    return Taken(tuple(names), end + 1, "")


def is_old(path: str, head: bytes) -> bool:
    """The whole file is one pickle of protocol 0 or 1, which has no magic, and calls something. Raises: OSError."""
    if head[:1] not in (b"c", b"(", b"}", b"]") or os.path.getsize(path) > OLD_LIMIT_BYTES:
        return False
    with open(path, "rb") as f:
        data = f.read(OLD_LIMIT_BYTES)
    if not data.rstrip(b"\n").endswith(b"."):
        return False
    found = take_apart(data)
    return not found.error and bool(found.names) and not data[found.end :].strip(b"\n")
