"""The fields of protocol buffer messages, as their bytes hold them: numbers and wire types, no schema.

Source: protobuf.dev/programming-guides/encoding, 2026-11.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Tuple


def fields(data: bytes) -> Iterator[Tuple[int, int, int | bytes]]:
    """(number, wire type, value) of each field of a protocol buffer message. Raises: ValueError if it is not one."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if not number:
            raise ValueError("a field without a number")
        if kind == 0:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("a field of wire type {}".format(kind))
        if at + length > len(data):
            raise ValueError("a field leaves its message")
        yield number, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise ValueError("a number of more than 10 bytes")
