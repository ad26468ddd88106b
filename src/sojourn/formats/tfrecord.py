"""Walks TFRecord files, including TensorBoard's event files: each record's length and data have a masked CRC32C.

Layout of a record: length (8 bytes, little-endian), masked CRC32C of these 8, data, masked CRC32C of the data.
Source: tensorflow.org/tutorials/load_data/tfrecord; RFC 3720 appendix B.4 for the polynomial; 2026-11.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Callable, Iterator, List, Optional, Sequence, Tuple

from sojourn.formats.damage import Unloadable

RECORD_LIMIT_BYTES = 128 << 20
_HELD_BYTES, _HELD = 1 << 20, 4096  # records whose checksums are computed together

Sums = Callable[[bytes, Sequence[int], Sequence[int]], List[int]]


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
    """The CRC as TFRecord stores it: rotated and offset, so that a CRC over data with CRCs stays useful."""
    return _mask(crc32c(data))


def _mask(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _sums(data: bytes, begins: Sequence[int], sizes: Sequence[int]) -> List[int]:
    return [crc32c(data[begin : begin + size]) for begin, size in zip(begins, sizes)]


def is_start(head: bytes) -> bool:
    """The first 12 bytes are a length and its checksum."""
    return len(head) >= 12 and struct.unpack("<I", head[8:12])[0] == masked(head[:8])


def records(f: BinaryIO, sums: Sums = _sums) -> Iterator[Tuple[int, bytes]]:
    """(offset, data) of each record, both checksums compared before it is returned.

    `sums(data, begins, sizes)` returns the CRCs of many parts of `data`; ours is plain Python, and slow.
    Raises: Unloadable (empty, truncated, corrupt, unsupported), OSError.
    """
    at, held, held_bytes = 0, [], 0  # type: int, List[Tuple[int, bytes, int]], int
    while True:
        trouble, row = _record(f, at)
        if row:
            held.append(row)
            held_bytes += len(row[1])
            at += 16 + len(row[1])
        if held_bytes >= _HELD_BYTES or len(held) >= _HELD or not row:
            yield from _checked(held, sums)
            held, held_bytes = [], 0
        if trouble:
            raise trouble
        if not row:
            return


def _record(f: BinaryIO, at: int) -> Tuple[Optional[Unloadable], Optional[Tuple[int, bytes, int]]]:
    """(what is wrong, (offset, data, expected masked CRC)) of the next; two None at the end."""
    head = f.read(12)
    if not head and at:
        return None, None
    if not head:
        return Unloadable("empty", "the file has no bytes"), None
    if len(head) < 12:
        return Unloadable("truncated", "it ends inside a record's length, at byte {}".format(at)), None
    if not is_start(head):
        return Unloadable("corrupt", "the record at byte {} is damaged: the checksum of its length".format(at)), None
    (length,) = struct.unpack("<Q", head[:8])
    if length > RECORD_LIMIT_BYTES:
        return Unloadable("unsupported", "a record of {} bytes".format(length)), None
    data = f.read(length)
    tail = f.read(4)
    if len(tail) < 4:
        return Unloadable("truncated", "it ends inside the record at byte {}".format(at)), None
    return None, (at, data, struct.unpack("<I", tail)[0])


def _checked(held: List[Tuple[int, bytes, int]], sums: Sums) -> Iterator[Tuple[int, bytes]]:
    data = held[0][1] if len(held) == 1 else b"".join(row[1] for row in held)
    begins, end = [], 0
    for row in held:
        begins.append(end)
        end += len(row[1])
    found = sums(data, begins, [len(row[1]) for row in held])
    for (at, record, want), crc in zip(held, found):
        if _mask(crc) != want:
            raise Unloadable("corrupt", "the record at byte {} is damaged: the checksum of its data".format(at))
        yield at, record
