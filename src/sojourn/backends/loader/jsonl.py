"""Proves JSON lines: every line one whole value, strictly. A last line without its end is a file that was cut, unless
what stands there is whole. A cut between two lines is only seen by its sha256."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

from sojourn.core.ports import Loaded
from sojourn.wire.damage import Unloadable

_LISTED = 32


class Backend:
    """Loads one .jsonl or .ndjson file."""

    kind: ClassVar[str] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not say what it is: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse every line. Raises: Unloadable, OSError."""
        from sojourn.backends.client import lines

        odd: list[str] = []  # NaN and infinity, and where
        doubled: list[str] = []
        keys: dict[str, None] = {}
        rows, number, remarks = 0, 0, []
        has_end = True

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            value = dict(found)
            if len(value) < len(found):
                doubled.append(f"line {number}")
            return value

        def constant(text: str) -> float:
            odd.append(f"{text} on line {number}")
            return 0.0

        def real(text: str) -> float:
            value = float(text)
            if not math.isfinite(value):
                odd.append(f"{text[:20]} on line {number} is more than a float holds")
            return value

        decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=str)
        with open(path, "rb") as f:
            for number, text, has_end in lines.lines(f):  # noqa: B007 - the hooks above read it
                if not text.strip(" \t\r"):
                    continue
                try:
                    value = decoder.decode(text)
                except RecursionError:
                    raise Unloadable("unparseable", f"line {number} is nested too deeply") from None
                except ValueError as error:
                    if not has_end:
                        raise Unloadable("truncated", f"line {number}, the last, is not whole: cut off") from None
                    raise Unloadable("unparseable", f"line {number} is not one JSON value: {error}") from None
                rows += 1
                if isinstance(value, dict) and len(keys) < _LISTED:
                    keys.update(dict.fromkeys(key[:200] for key in value))
        if odd:
            raise Unloadable("non-finite", "; ".join(odd[:5]) + (f" and {len(odd) - 5} more" if len(odd) > 5 else ""))
        if not rows:
            raise Unloadable("empty", "nothing but white space")
        if not has_end:
            remarks.append("its last line has no end: the next one would be written into it")
        if doubled:
            remarks.append(f"keys that stand twice in one object: {', '.join(doubled[:5])}")
        facts = {"rows": rows, "keys": list(keys)[:_LISTED], "by": "sojourn"}
        return Loaded(("structure", "load", "content"), facts, tuple(remarks))
