"""Proves TensorBoard event files: both checksums of every record, every event parsed, every scalar finite.

A cut between two records is only seen by the sha256. TFRecord files of other things are proven as records alone.
"""

from __future__ import annotations

import math
import os
import re
import struct
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import tfrecord as walker
from sojourn.formats.damage import Unloadable

# Fields of tensorboard.Event, Summary and Summary.Value.
# Source: tensorboard/compat/proto/{event,summary}.proto, tensorboard 2.21, 2026-11.
_STEP, _VERSION, _SUMMARY = 2, 3, 5
_VALUE, _TAG, _SIMPLE, _TENSOR = 1, 1, 2, 8
_DTYPE, _FLOATS, _CONTENT = 1, 5, 4
_NAMED, _LISTED = 5, 1000
# wall time, step, a summary of one value: tag and simple value; all lengths below 128.
_SCALAR = re.compile(rb"\x09.{8}(?:\x10([\x80-\xff]{0,8}[\x00-\x7f]))?\x2a(.)\x0a(.)\x0a(.)(.*)\x15(.{4})", re.DOTALL)


class Backend(Loader):
    """Loads one events.out.tfevents.* file."""

    kind: ClassVar[str] = "tfevents"
    suffixes: ClassVar[tuple[str, ...]] = (".tfevents.*", ".tfrecord", ".tfrecords")
    magic: ClassVar[tuple[bytes, ...]] = ()  # a length and its checksum
    may_be_empty: ClassVar[tuple[str, ...]] = (".tfevents.*",)  # a writer that was opened and never written to

    def owns(self, path: str, head: bytes) -> bool:
        """It begins with a length and the checksum of it."""
        return walker.is_start(head)

    def load(self, path: str) -> Loaded:
        """Walk and parse it. Raises: Unloadable, OSError."""
        from sojourn.backends.proof.crc32c import crcs32c

        if not os.path.getsize(path):
            facts: dict[str, Any] = {"records": 0, "by": "sojourn"}
            return Loaded(("structure", "load", "content"), facts, ("an event file without events",))
        count, steps, tags, bad, is_log = 0, [0, 0], dict[str, int](), list[str](), False
        with open(path, "rb") as f:
            for at, data in walker.records(f, crcs32c):
                try:
                    if not count:
                        is_log = any(number == _VERSION for number, _, _ in walker.fields(data))
                    if is_log:
                        step, scalars = _plain(data) or _parsed(data)
                        steps = [min(steps[0], step), max(steps[1], step)]
                        for tag, value in scalars:
                            tags[tag] = tags.get(tag, 0) + 1
                            if not math.isfinite(value) and len(bad) < _LISTED:
                                bad.append(f"{tag[:80]} at step {step}: {value}")
                except ValueError as error:
                    if is_log:
                        raise Unloadable("corrupt", f"the event at byte {at} is none: {error}") from None
                count += 1
        if bad:
            more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
            raise Unloadable("non-finite", "; ".join(bad[:_NAMED]) + more)
        facts = {"records": count, "by": "sojourn"}
        if not is_log:
            return Loaded(("structure", "load"), facts)
        facts.update({"steps": steps, "tags": {tag[:200]: n for tag, n in list(tags.items())[:32]}})
        return Loaded(("structure", "load", "content"), facts)


def _plain(data: bytes) -> tuple[int, list[tuple[str, float]]] | None:
    """`_parsed` of an event with one scalar, as nearly all are; None of any other."""
    hit = _SCALAR.fullmatch(data)
    if not hit:
        return None
    number, outer, inner, length, tag, value = hit.groups()
    if (length[0], inner[0], outer[0]) != (len(tag), len(tag) + 7, len(tag) + 9):
        return None
    step = 0
    for byte in reversed(number or b""):
        step = step << 7 | byte & 0x7F
    return step if step < 1 << 63 else 0, [(tag.decode("utf-8", "replace"), struct.unpack("<f", value)[0])]


def _parsed(data: bytes) -> tuple[int, list[tuple[str, float]]]:
    """(step, (tag, value) of every scalar) of an event. Raises: ValueError where it is none."""
    event = list(walker.fields(data))
    step = next((value for n, kind, value in event if n == _STEP and kind == 0), 0)
    return step if isinstance(step, int) and step < 1 << 63 else 0, _scalars(event)


def _scalars(event: list[tuple[int, int, int | bytes]]) -> list[tuple[str, float]]:
    """(tag, value) of every scalar in an event. Raises: ValueError."""
    out = []
    for number, kind, summary in event:
        if number != _SUMMARY or kind != 2 or not isinstance(summary, bytes):
            continue
        for _, _, value in (field for field in walker.fields(summary) if field[:2] == (_VALUE, 2)):
            tag, numbers = "", list[float]()
            for inner, form, part in walker.fields(value if isinstance(value, bytes) else b""):
                if not isinstance(part, bytes):
                    continue
                if inner == _TAG:
                    tag = part.decode("utf-8", "replace")
                elif inner == _SIMPLE and form == 5:
                    numbers += struct.unpack("<f", part)
                elif inner == _TENSOR:
                    numbers += _floats(part)
            out += [(tag, number) for number in numbers]
    return out


def _floats(tensor: bytes) -> list[float]:
    """The values of a float32 tensor message (dtype 1), as new TensorBoard scalars are; [] of any other."""
    rows = list(walker.fields(tensor))
    if (_DTYPE, 0, 1) not in rows:
        return []
    out: list[float] = []
    for number, kind, part in rows:
        if isinstance(part, bytes) and len(part) % 4 == 0 and number in (_CONTENT, _FLOATS) and kind in (2, 5):
            out += struct.unpack(f"<{len(part) // 4}f", part)
    return out
