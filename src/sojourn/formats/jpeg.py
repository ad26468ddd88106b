"""Walks the markers of a JPEG: every segment, the tables and frame that a picture needs, scans up to the end marker.

JPEG has no checksum: damage inside the compressed data is noticed only if it creates a marker, breaks the order of
restart markers, or removes the end. Source: ITU-T T.81 (1992-09), annex B; T.872 for APP14; 2026-11.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sojourn.formats.damage import Unloadable

MAGIC = b"\xff\xd8\xff"
LIMIT_BYTES = 256 << 20
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MARK = re.compile(rb"\xff+[^\x00\xff]")  # in compressed data, FF 00 is a byte FF; further FFs are fill
ZERO_RUN_BYTES = 512
_ZEROS = re.compile(b"\x00{512,}")


class Image(NamedTuple):
    """The frame header's values; `scans`; `zero_run_bytes`: the longest run of zeros in its data, if at least 512."""

    width: int
    height: int
    components: int
    is_progressive: bool
    scans: int
    zero_run_bytes: int


def walk(data: bytes) -> Image:
    """The whole file. Raises: Unloadable (empty, truncated, corrupt)."""
    if not data:
        raise Unloadable("empty", "the file has no bytes")
    if not data.startswith(MAGIC[: len(data)]):
        raise Unloadable("corrupt", "it does not begin as a JPEG does")
    first, at, is_multi = _picture(data, 0)
    # A camera may append further pictures after the first, which then says so (CIPA DC-007, "MPF").
    while is_multi and data.startswith(MAGIC, at):
        at = _picture(data, at)[1]
    if at < len(data):
        raise Unloadable("corrupt", "{} bytes follow its end".format(len(data) - at))
    return first


def _picture(data: bytes, at: int) -> tuple[Image, int, bool]:
    """(the picture that starts at `at`, where it ends, whether it announces further ones)."""
    at, frame, scans, zeros = at + 2, None, 0, 0
    seen = set()
    interval = 0
    is_multi = False
    while True:
        kind, at = _marker(data, at)
        if kind == 0xD9:
            break
        if kind in (0x01, 0xD8) or 0xD0 <= kind <= 0xD7 or kind < 0xC0:
            raise Unloadable("corrupt", "a marker FF{:02X} at byte {}, where there can be none".format(kind, at - 2))
        segment, at = _segment(data, at, kind)
        is_multi = is_multi or (kind == 0xE2 and segment.startswith(b"MPF\x00"))
        if kind == 0xDD and len(segment) == 2:
            interval = int.from_bytes(segment, "big")
        if kind in _FRAMES:
            if frame is not None:
                raise Unloadable("corrupt", "it has two frames")
            frame = _frame(segment, kind)
        seen.add(kind)
        if kind == 0xDA:
            if frame is None:
                raise Unloadable("corrupt", "a scan comes before the frame")
            if len(segment) < 6 or len(segment) != 4 + 2 * segment[0] or not 1 <= segment[0] <= frame.components:
                raise Unloadable("corrupt", "the header of a scan makes no sense")
            begin, at = at, _scan_end(data, at, interval)
            if at == begin:
                raise Unloadable("corrupt", "a scan without data")
            zeros = max([zeros] + [len(hit.group()) for hit in _ZEROS.finditer(data, begin, at)])
            scans += 1
    if frame is None or not scans:
        raise Unloadable("corrupt", "it has no picture in it")
    if 0xDB not in seen or (0xC4 not in seen and frame.is_huffman):
        raise Unloadable("corrupt", "its quantisation or Huffman tables are missing")
    return Image(frame.width, frame.height, frame.components, frame.is_progressive, scans, zeros), at, is_multi


class _Frame(NamedTuple):
    width: int
    height: int
    components: int
    is_progressive: bool
    is_huffman: bool


def _marker(data: bytes, at: int) -> tuple[int, int]:
    """(the marker at `at`, where its segment starts)."""
    if at + 2 > len(data):
        raise Unloadable("truncated", "it ends before its end marker: cut off")
    if data[at] != 0xFF:
        raise Unloadable("corrupt", "no marker at byte {}".format(at))
    while at < len(data) and data[at] == 0xFF:
        at += 1
    if at == len(data):
        raise Unloadable("truncated", "it ends before its end marker: cut off")
    return data[at], at + 1


def _segment(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    length = int.from_bytes(data[at : at + 2], "big")
    if at + 2 > len(data) or at + length > len(data):
        raise Unloadable("truncated", "it ends inside its segment FF{:02X}".format(kind))
    if length < 2:
        raise Unloadable("corrupt", "its segment FF{:02X} has {} bytes".format(kind, length))
    return data[at + 2 : at + length], at + length


def _frame(segment: bytes, kind: int) -> _Frame:
    if len(segment) < 9 or len(segment) != 6 + 3 * segment[5]:
        raise Unloadable("corrupt", "its frame makes no sense")
    height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
    if not width or segment[0] not in (8, 12, 16) or not 1 <= segment[5] <= 4:
        raise Unloadable("corrupt", "its frame makes no sense")
    return _Frame(width, height, segment[5], kind in (0xC2, 0xC6, 0xCA, 0xCE), kind < 0xC8)


def _scan_end(data: bytes, at: int, interval: int) -> int:
    """The end of compressed data starting at `at`: the next marker that is not a restart. Restarts count 0 to 7."""
    expected = 0
    while True:
        hit = _MARK.search(data, at)
        if not hit:
            raise Unloadable("truncated", "it ends inside its compressed data: cut off")
        kind = data[hit.end() - 1]
        if not 0xD0 <= kind <= 0xD7:
            return hit.start()
        if not interval or kind != 0xD0 + expected:
            raise Unloadable("corrupt", "a restart marker at byte {} is not the one that is due".format(hit.start()))
        expected = (expected + 1) % 8
        at = hit.end()
