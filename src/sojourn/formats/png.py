"""Walks a PNG: every chunk and its CRC, their order, and all pixel rows inflated to exactly the size in the header.

Source: PNG specification, third edition (W3C, 2025-06), sections 5, 9, 11; 2026-11.
"""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO, List, NamedTuple, Tuple

from sojourn.formats.damage import Unloadable

MAGIC = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
# Adam7: first column, first row, column step, row step of each pass.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE_BYTES = 1 << 20
BOMB_BYTES = 512 << 20
BOMB_RATIO = 100


class Image(NamedTuple):
    """The header's values, and `chunks`, their number."""

    width: int
    height: int
    depth: int
    color: int
    chunks: int


def walk(f: BinaryIO, size_bytes: int) -> Image:
    """The whole image, every byte read. Raises: Unloadable (empty, truncated, corrupt, unsafe), OSError."""
    head = f.read(8)
    if head != MAGIC:
        is_cut = bool(head) and MAGIC.startswith(head)
        raise Unloadable("truncated" if is_cut else "corrupt", "it does not begin as a PNG does")
    at, kinds = 8, []  # type: Tuple[int, List[bytes]]
    pixels = None
    header = b""
    while True:
        row = f.read(8)
        if len(row) < 8:
            raise Unloadable("truncated", "it ends before its last chunk (IEND)")
        length, kind = struct.unpack(">I4s", row)
        if at + 12 + length > size_bytes:
            if not kind.isalpha() or length >> 31:
                raise Unloadable("corrupt", "the chunk at byte {} is damaged".format(at))
            raise Unloadable("truncated", "it ends inside a chunk {}".format(kind.decode("latin-1")))
        if pixels is None and kind == b"IDAT":
            pixels = _Pixels(header, size_bytes)
        crc, left, small = zlib.crc32(kind), length, b""
        while left:
            piece = f.read(min(left, _PIECE_BYTES))
            if not piece:
                raise Unloadable("truncated", "the file ended while it was read")
            crc, left = zlib.crc32(piece, crc), left - len(piece)
            if kind == b"IDAT" and pixels is not None:
                pixels.feed(piece)
            elif kind == b"IHDR":
                small += piece
        if crc != int.from_bytes(f.read(4), "big"):
            raise Unloadable("corrupt", "the chunk {} at byte {} is damaged (CRC)".format(kind.decode("latin-1"), at))
        if not kinds and kind != b"IHDR" or kinds and kind == b"IHDR":
            raise Unloadable("corrupt", "its header (IHDR) is not its first chunk")
        if kind == b"IHDR":
            header = small
            _check_header(header)
        if kind == b"IDAT" and b"IDAT" in kinds and kinds[-1] != b"IDAT":
            raise Unloadable("corrupt", "its pixels are interrupted by another chunk")
        kinds.append(kind)
        at += 12 + length
        if kind == b"IEND":
            break
    if at < size_bytes:
        raise Unloadable("corrupt", "{} bytes follow its end".format(size_bytes - at))
    if pixels is None:
        raise Unloadable("corrupt", "it has no pixels (IDAT)")
    if header[9] == 3 and b"PLTE" not in kinds:
        raise Unloadable("corrupt", "it has no palette (PLTE)")
    pixels.end()
    width, height, depth, color = struct.unpack(">IIBB", header[:10])
    return Image(width, height, depth, color, len(kinds))


def _check_header(header: bytes) -> None:
    if len(header) != 13:
        raise Unloadable("corrupt", "its header has not 13 bytes")
    width, height, depth, color, packing, filtering, interlace = struct.unpack(">IIBBBBB", header)
    if not width or not height or (width | height) >> 31 or packing or filtering or interlace > 1:
        raise Unloadable("corrupt", "its header makes no sense")
    if depth not in _DEPTHS.get(color, ()):
        raise Unloadable("corrupt", "there is no PNG of colour type {} with {} bits".format(color, depth))


class _Pixels:
    """Counts what the image data inflates to, and looks at the filter byte of each row."""

    def __init__(self, header: bytes, size_bytes: int) -> None:
        if len(header) != 13:
            raise Unloadable("corrupt", "its pixels come before its header")
        self._rows = _rows(header)
        self._total = sum(count * width for count, width in self._rows)
        if self._total > BOMB_BYTES and self._total > BOMB_RATIO * size_bytes:
            raise Unloadable("unsafe", "{} bytes would inflate to {}".format(size_bytes, self._total))
        self._inflate = zlib.decompressobj()
        self._made = 0
        self._next = 0  # position of the next row's filter byte
        self._pass, self._row = 0, 0

    def feed(self, data: bytes) -> None:
        """Take more compressed data."""
        pending = data
        while pending and not self._inflate.eof:
            try:
                piece = self._inflate.decompress(pending, _PIECE_BYTES)
            except zlib.error as error:
                raise Unloadable("corrupt", "its pixels do not inflate: {}".format(error)) from None
            pending = self._inflate.unconsumed_tail
            self._look(piece)
            if not piece and not pending:
                break

    def _look(self, piece: bytes) -> None:
        begin = self._made
        self._made += len(piece)
        if self._made > self._total:
            raise Unloadable("corrupt", "it has more pixels than its header says")
        while self._pass < len(self._rows) and self._next < self._made:
            if piece[self._next - begin] > 4:
                raise Unloadable("corrupt", "a row of its pixels has a filter that does not exist")
            count, width = self._rows[self._pass]
            self._next += width
            self._row += 1
            if self._row == count:
                self._pass, self._row = self._pass + 1, 0

    def end(self) -> None:
        """Raises: Unloadable if pixels are missing."""
        while not self._inflate.eof:
            piece = self._inflate.decompress(b"", _PIECE_BYTES)
            if not piece:
                raise Unloadable("truncated", "its pixels end before their own end")
            self._look(piece)
        if self._made != self._total or self._inflate.unused_data:
            raise Unloadable("corrupt", "its pixels take {} bytes, not {}".format(self._made, self._total))


def _rows(header: bytes) -> List[Tuple[int, int]]:
    """(rows, bytes per row with its filter byte) of every non-empty pass."""
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    bits = depth * _CHANNELS[color]
    passes = _PASSES if interlace else ((0, 0, 1, 1),)
    out = []
    for x, y, dx, dy in passes:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        if columns > 0 and rows > 0:
            out.append((rows, 1 + (columns * bits + 7) // 8))
    return out
