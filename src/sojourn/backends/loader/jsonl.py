"""Verifies JSON lines: every line one whole value, strictly. A last line without its end means a cut file, unless its
value is complete. Only the sha256 shows a cut between two lines."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

_LISTED = 256


class Backend(Loader):
    """Loads one .jsonl or .ndjson file."""

    kind: ClassVar[str] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not identify itself: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse every line. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import lines

        odd: dict[str, None] = {}  # NaN and infinity, with location
        doubled: list[str] = []
        keys: dict[str, None] = {}
        rows, number, remarks = 0, 0, []
        has_end = True

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            value = dict(found)
            if len(value) < len(found) and len(doubled) < _LISTED:
                doubled.append(f"line {number}")
            return value

        def constant(text: str) -> float:
            odd[f"{text} on line {number}"] = None
            return 0.0

        def real(text: str) -> float:
            value = float(text)
            if not math.isfinite(value):
                odd[f"{text[:20]} on line {number} exceeds the range of a float"] = None
            return value

        careful = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=str)
        quick = json.JSONDecoder(object_pairs_hook=pairs, parse_int=str)
        with open(path, "rb") as f:
            for block in lines.blocks(f):
                # A block without possibly non-finite numbers is read by the standard library's own C code alone.
                decoder = careful if lines.is_odd_json(block.text) else quick
                scan = decoder.scan_once  # type: ignore[attr-defined]
                has_end, found = block.has_end, block.lines
                for number, text in enumerate(found, block.line):
                    if not text.strip(" \t\r"):
                        continue
                    is_last = not has_end and number == block.line + len(found) - 1
                    try:
                        value, end = scan(text, 0)
                        if end != len(text):
                            raise ValueError("more follows it")
                    except (StopIteration, ValueError, RecursionError):
                        value = _decoded(careful, text, number, is_last)
                    rows += 1
                    if len(keys) < _LISTED and isinstance(value, dict) and not keys.keys() >= value.keys():
                        keys.update(dict.fromkeys(key[:200] for key in value))
        if odd:
            more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
            raise Unloadable("non-finite", "; ".join(list(odd)[:5]) + more)
        if not rows:
            raise Unloadable("empty", "only white space")
        if not has_end:
            remarks.append("its last line has no line ending: the next line would be appended to it")
        if doubled:
            remarks.append(f"duplicate keys in one object: {', '.join(doubled[:5])}")
        facts = {"rows": rows, "keys": list(keys)[:_LISTED], "by": "sojourn"}
        return Loaded(("structure", "load", "content"), facts, tuple(remarks))


def _decoded(decoder: json.JSONDecoder, text: str, number: int, is_last: bool) -> Any:
    """The one value on a line, possibly with space around it. Raises: Unloadable."""
    try:
        return decoder.decode(text)
    except RecursionError:
        raise Unloadable("unparseable", f"line {number} is nested too deeply") from None
    except ValueError as error:
        if is_last:
            raise Unloadable("truncated", f"line {number}, the last, is incomplete: cut off") from None
        raise Unloadable("unparseable", f"line {number} is not one JSON value: {error}") from None
