"""What one event of a TensorBoard file contains: its step and its scalars.

Source: tensorboard/compat/proto/{event,summary,tensor}.proto, tensorboard 2.21, 2026-11.
"""

from __future__ import annotations

import re
import struct

from sojourn.wire import protobuf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

VERSION = 3  # this field is only in a file's first event
_STEP, _SUMMARY = 2, 5
_VALUE, _TAG, _SIMPLE, _TENSOR = 1, 1, 2, 8
_DTYPE, _FLOATS, _CONTENT = 1, 5, 4
# wall time, step, a summary of one value: tag and simple value; all lengths below 128.
_SCALAR = re.compile(rb"\x09.{8}(?:\x10([\x80-\xff]{0,8}[\x00-\x7f]))?\x2a(.)\x0a(.)\x0a(.)(.*)\x15(.{4})", re.DOTALL)


def scalars(data: bytes) -> Tuple[int, List[Tuple[str, float]]]:
    """(step, (tag, value) of every scalar) of an event; a tensor gives one pair per number.

    Raises: ValueError if it is not an event.
    """
    return _plain(data) or _parsed(data)


def _plain(data: bytes) -> Tuple[int, List[Tuple[str, float]]] | None:
    """`_parsed` for an event with one scalar, as nearly all are; None for any other."""
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


def _parsed(data: bytes) -> Tuple[int, List[Tuple[str, float]]]:
    event = list(protobuf.fields(data))
    step = next((value for n, kind, value in event if n == _STEP and kind == 0), 0)
    return step if isinstance(step, int) and step < 1 << 63 else 0, _scalars(event)


def _scalars(event: List[Tuple[int, int, int | bytes]]) -> List[Tuple[str, float]]:
    out: List[Tuple[str, float]] = []
    for number, kind, summary in event:
        if number != _SUMMARY or kind != 2 or not isinstance(summary, bytes):
            continue
        for _, _, value in (field for field in protobuf.fields(summary) if field[:2] == (_VALUE, 2)):
            tag, numbers = "", []  # type: str, List[float]
            for inner, form, part in protobuf.fields(value if isinstance(value, bytes) else b""):
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


def _floats(tensor: bytes) -> List[float]:
    """The values of a float32 tensor message (dtype 1), the form of new TensorBoard scalars; [] for any other."""
    rows = list(protobuf.fields(tensor))
    if (_DTYPE, 0, 1) not in rows:
        return []
    out: List[float] = []
    for number, kind, part in rows:
        if isinstance(part, bytes) and len(part) % 4 == 0 and number in (_CONTENT, _FLOATS) and kind in (2, 5):
            out += struct.unpack("<%df" % (len(part) // 4), part)
    return out
