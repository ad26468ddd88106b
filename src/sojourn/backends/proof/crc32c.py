"""Castagnoli's CRC of many byte strings at once. The walker's own goes byte by byte, in Python. Wraps: numpy

A CRC is linear: zeros before data leave a state of zero unchanged, and appending a piece only shifts its state by a
matrix. So pieces are arranged as rows, right-aligned after zeros, all advance by two bytes at a time, and the results
are joined in pairs.   Source: RFC 3720 appendix B.4; zlib's crc32_combine for the joining, 2026-11.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78
_ROW_BYTES = 256  # per row of a long string
_ROWS = 1 << 14  # at a time
_LONG_BYTES = 16 << 10  # a longer string is cut into rows; so are a few shorter ones
_FEW = 16


def crc32c(data: bytes | memoryview) -> int:
    """The CRC of one byte string."""
    return crcs32c(data, [0], [len(data)])[0]


def crcs32c(data: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The CRC of each of the strings that start at `begins` in `data` and have `sizes` bytes, in that order."""
    out = [0] * len(begins)
    groups: dict[int, list[int]] = {}
    values = np.frombuffer(data, dtype=np.uint8)
    for at, size in enumerate(sizes):
        if size:
            groups.setdefault(max(8, 1 << (size - 1).bit_length()), []).append(at)
    for width, every in groups.items():
        if width > _LONG_BYTES or (width > _ROW_BYTES and len(every) < _FEW):
            for at in every:
                out[at] = _long(values[begins[at] : begins[at] + sizes[at]])
            continue
        rows = max(_ROW_BYTES * _ROWS // width, 1)
        for first in range(0, len(every), rows):
            which = every[first : first + rows]
            found = _rows(values, np.array([begins[at] for at in which]), np.array([sizes[at] for at in which]), width)
            for at, crc in zip(which, found.tolist(), strict=True):
                out[at] = crc
    return out


def _rows(values: Any, begins: Any, sizes: Any, width: int) -> Any:
    """CRCs of strings of at most `width` bytes, none empty."""
    from_end = np.arange(-width, 0, dtype=np.int32)
    table = values.take((begins + sizes).astype(np.int32)[:, None] + from_end, mode="clip")
    table *= from_end >= -sizes[:, None]
    # An initial state of all ones turns the first four bytes into ones; for fewer bytes, the rest of it remains.
    for byte in range(4):
        rows = np.flatnonzero(sizes > byte)
        table[rows, width - sizes[rows] + byte] ^= 0xFF
    crc = _step(table)
    short = sizes < 4
    if short.any():
        crc[short] ^= np.uint32(0xFFFFFFFF) >> (8 * sizes[short]).astype(np.uint32)
    return ~crc


def _long(values: Any) -> int:
    rows = -(-len(values) // _ROW_BYTES)
    total, width = 0, _ROW_BYTES * _ROWS
    # The first piece takes the remainder, so that all others have the same length.
    begin, end = 0, len(values) - (rows - 1) // _ROWS * width
    while begin < len(values):
        piece = np.zeros(-(-(end - begin) // _ROW_BYTES) * _ROW_BYTES, dtype=np.uint8)
        piece[len(piece) - (end - begin) :] = values[begin:end]
        if begin == 0:
            piece[len(piece) - end :][:4] ^= 0xFF
        crcs = _step(piece.reshape(-1, _ROW_BYTES))
        total = _shifted(np.array([total], dtype=np.uint32), width)[0] if begin else 0
        total = int(total) ^ int(_joined(crcs))
        begin, end = end, end + width
    return total ^ 0xFFFFFFFF


def _step(table: Any) -> Any:
    """States of zero after each row."""
    words = np.ascontiguousarray(table.view("<u2").T)
    lookup = _words()
    crc = np.zeros(table.shape[0], dtype=np.uint32)
    for column in words:
        crc = lookup[(crc & 0xFFFF) ^ column] ^ (crc >> np.uint32(16))
    return crc


def _joined(crcs: Any) -> Any:
    """The state after all rows of _ROW_BYTES, from the states after each."""
    width = _ROW_BYTES
    while len(crcs) > 1:
        if len(crcs) % 2:
            crcs = np.concatenate((np.zeros(1, dtype=np.uint32), crcs))
        crcs = _shifted(crcs[::2], width) ^ crcs[1::2]
        width *= 2
    return crcs[0]


def _shifted(crcs: Any, count: int) -> Any:
    """States after `count` more bytes of zero."""
    tables = _shift_tables(count)
    out = np.zeros_like(crcs)
    for part in range(4):
        out ^= tables[part][(crcs >> np.uint32(8 * part)) & 0xFF]
    return out


@functools.cache
def _shift_tables(count: int) -> Any:
    """(4, 256): the result for each value of each byte of a state after `count` bytes of zero; a power of two."""
    states = (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]).ravel()
    if count == 1:
        states = _bytes()[states & 0xFF] ^ (states >> np.uint32(8))
    else:
        half = _shift_tables(count // 2)
        for _ in range(2):
            states = functools.reduce(
                np.bitwise_xor, (half[part][(states >> np.uint32(8 * part)) & 0xFF] for part in range(4))
            )
    return states.reshape(4, 256)


@functools.cache
def _bytes() -> Any:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table.astype(np.uint32)


@functools.cache
def _words() -> Any:
    """(65536,): a state's lower 16 bits after two bytes of zero."""
    table, states = _bytes(), np.arange(65536, dtype=np.uint32)
    for _ in range(2):
        states = table[states & 0xFF] ^ (states >> np.uint32(8))
    return states
