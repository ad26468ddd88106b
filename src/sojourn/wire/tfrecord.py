"""Walks TFRecord files, TensorBoard's event files among them: each record's length and data have a masked CRC32C.

Layout of a record: length (8 bytes, little-endian), masked CRC32C of these 8, data, masked CRC32C of the data.
Source: tensorflow.org/tutorials/load_data/tfrecord; RFC 3720 appendix B.4 for the polynomial; 2026-11.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Iterator, List, Tuple

from sojourn.wire.damage import Unloadable

RECORD_LIMIT_BYTES = 128 << 20


def _table() -> List[int]:
    out = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        out.append(value)
    return out


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's CRC of `data`."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The CRC as TFRecord keeps it: turned and shifted, so that a CRC over CRCs is none of its own."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def is_start(head: bytes) -> bool:
    """The first 12 bytes are a length and its checksum."""
    return len(head) >= 12 and struct.unpack("<I", head[8:12])[0] == masked(head[:8])


def records(f: BinaryIO) -> Iterator[Tuple[int, bytes]]:
    """(where it begins, its data) of each record, both checksums compared.

    Raises: Unloadable (empty, truncated, corrupt, unsupported), OSError.
    """
    at = 0
    while True:
        head = f.read(12)
        if not head and at:
            return
        if not head:
            raise Unloadable("empty", "the file has no bytes")
        if len(head) < 12:
            raise Unloadable("truncated", "it ends inside a record's length, at byte {}".format(at))
        if not is_start(head):
            raise Unloadable("corrupt", "the record at byte {} is damaged: the checksum of its length".format(at))
        (length,) = struct.unpack("<Q", head[:8])
        if length > RECORD_LIMIT_BYTES:
            raise Unloadable("unsupported", "a record of {} bytes".format(length))
        data = f.read(length + 4)
        if len(data) < length + 4:
            raise Unloadable("truncated", "it ends inside the record at byte {}".format(at))
        if masked(data[:length]) != struct.unpack("<I", data[length:])[0]:
            raise Unloadable("corrupt", "the record at byte {} is damaged: the checksum of its data".format(at))
        yield at, data[:length]
        at += 16 + length


def fields(data: bytes) -> Iterator[Tuple[int, int, int | bytes]]:
    """(number, wire type, value) of each field of a protocol buffer message. Raises: ValueError where it is none."""
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
