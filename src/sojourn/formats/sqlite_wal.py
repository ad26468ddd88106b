"""Walks the write-ahead log beside an SQLite database: its header and every valid frame, each against its checksum.

SQLite silently takes the frames up to the first invalid one: so damage inside loses everything
written after it. Frames after the last valid one are left over from before the log was restarted.
Source: https://www.sqlite.org/fileformat2.html, section 4, 2026-11.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple, Tuple

from sojourn.formats.damage import Unloadable

MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # sums over little-endian words, over big-endian words
_HEADER_BYTES, _FRAME_BYTES = 32, 24
_VERSION = 3007000
_LONG_AGO = 1 << 24


class Log(NamedTuple):
    """`frames`: the valid ones; `open_frames`: those of them after the last commit; `pages`: of the database."""

    page_bytes: int
    frames: int
    open_frames: int
    pages: int


def walk(f: BinaryIO) -> Log:
    """The whole log. Raises: Unloadable (truncated, corrupt), OSError."""
    head = f.read(_HEADER_BYTES)
    if not head:
        return Log(0, 0, 0, 0)  # everything is in the database
    if not head.startswith(tuple(magic[: len(head)] for magic in MAGICS)):
        raise Unloadable("corrupt", "it does not begin as a log of SQLite does")
    if len(head) < _HEADER_BYTES:
        raise Unloadable("truncated", "it ends inside its header")
    order = "<" if head[:4] == MAGICS[0] else ">"
    version, page = struct.unpack(">II", head[4:12])
    salts, told = head[16:24], struct.unpack(">II", head[24:32])
    sums = _sums(order, head[:24], (0, 0))
    if sums != told:
        raise Unloadable("corrupt", "its header is damaged: its checksum does not fit")
    if version != _VERSION or page < 512 or page > 65536 or page & (page - 1):
        raise Unloadable("unsupported", "a log of version {} with pages of {} bytes".format(version, page))
    frames = open_frames = pages = 0
    is_over = False
    while True:
        frame = f.read(_FRAME_BYTES + page)
        if not frame:
            return Log(page, frames, open_frames, pages)
        if len(frame) < _FRAME_BYTES + page and (len(frame) < 16 or frame[8:16] == salts):
            raise Unloadable("truncated", "it ends inside frame {}".format(frames + 1))
        is_ours = frame[8:16] == salts
        if is_over and is_ours:
            raise Unloadable("corrupt", "frames that count follow one that does not: SQLite would pass over them")
        is_over = not is_ours
        if is_over:
            _check_left_over(frame, salts, _FRAME_BYTES + page, frames + 1)
            continue
        sums = _sums(order, frame[_FRAME_BYTES:], _sums(order, frame[:8], sums))
        if sums != struct.unpack(">II", frame[16:24]):
            raise Unloadable(
                "corrupt", "frame {} is damaged: SQLite would pass over it and all behind it".format(frames + 1)
            )
        frames, open_frames = frames + 1, open_frames + 1
        size = int.from_bytes(frame[4:8], "big")
        if size:  # a commit
            open_frames, pages = 0, size


def _check_left_over(frame: bytes, salts: bytes, size_bytes: int, number: int) -> None:
    """Raises: Unloadable if a frame is not from an earlier log: the first of the two salts grows by one each time."""
    age = (int.from_bytes(salts[:4], "big") - int.from_bytes(frame[8:12], "big")) & 0xFFFFFFFF
    if len(frame) < size_bytes or not 0 < age < _LONG_AGO or frame[12:16] == salts[4:]:
        raise Unloadable("corrupt", "frame {} is damaged, or what is there is no frame".format(number))


def _sums(order: str, data: bytes, sums: Tuple[int, int]) -> Tuple[int, int]:
    a, b = sums
    words = struct.unpack("{}{}I".format(order, len(data) // 4), data)
    for x, y in zip(words[::2], words[1::2]):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return a, b
