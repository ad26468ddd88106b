"""Reads Thrift's compact protocol into plain dicts, without a schema: {field number: value}.

Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md (2026-11).
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Tuple

_MAX_DEPTH = 32


def read_struct(data: bytes, at: int) -> Tuple[Dict[int, Any], int]:
    """(the struct at `at`, where it ends). Raises: ValueError if there is none."""
    try:
        return _struct(data, at, 0)
    except (IndexError, struct.error, OverflowError):
        raise ValueError("it is cut off") from None


def _struct(data: bytes, at: int, depth: int) -> Tuple[Dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    found: Dict[int, Any] = {}
    number = 0
    while True:
        head, at = data[at], at + 1
        if not head:
            return found, at
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        if number in found or number < 0:
            raise ValueError("a field stands in it twice")
        if kind in (1, 2):
            found[number] = kind == 1
        else:
            found[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> Tuple[Any, int]:
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == 8:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("a text leaves the data")
        return bytes(data[at : at + length]), at + length
    if kind in (9, 10):
        return _list(data, at, depth + 1)
    if kind == 11:
        return _map(data, at, depth + 1)
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise ValueError("no type {}".format(kind))


def _list(data: bytes, at: int, depth: int) -> Tuple[List[Any], int]:
    head, at = data[at], at + 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, at = _varint(data, at)
    if depth > _MAX_DEPTH or count > len(data) - at:
        raise ValueError("a list leaves the data")
    out = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        out.append(value)
    return out, at


def _map(data: bytes, at: int, depth: int) -> Tuple[Dict[Any, Any], int]:
    count, at = _varint(data, at)
    if not count:
        return {}, at
    kinds, at = data[at], at + 1
    if depth > _MAX_DEPTH or count > len(data) - at:
        raise ValueError("a map leaves the data")
    out = {}
    for _ in range(count):
        key, at = _value(data, at, kinds >> 4, depth)
        value, at = _value(data, at, kinds & 15, depth)
        out[repr(key)] = value
    return out, at


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than 10 bytes")


def _zigzag(data: bytes, at: int) -> Tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
