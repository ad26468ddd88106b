"""Walks a Parquet file: both magics, the footer, every column chunk page by page, rows and values counted, page
checksums if the writer made them (few do). Values are not decoded: that takes codecs.

Source: https://github.com/apache/parquet-format (README, parquet.thrift; 2.11, 2026-11).
"""

from __future__ import annotations

import mmap
import zlib
from typing import Any, Dict, List, NamedTuple, Tuple

from sojourn.formats import thrift
from sojourn.formats.damage import Unloadable

MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
FOOTER_LIMIT_BYTES = 16 << 20  # parsed, it takes about ten times that
_HEADER_LIMIT_BYTES = 16 << 20  # of one page's header, statistics included
_PIECE_BYTES = 1 << 20


class Table(NamedTuple):
    """columns: their paths joined by dots. `has_sums`: every page has a matching checksum. `is_summary`: of other files
    beside it, which hold all its columns; only its footer was walked.
    """

    rows: int
    row_groups: int
    columns: Tuple[str, ...]
    pages: int
    has_sums: bool
    created_by: str
    is_summary: bool = False


def walk(path: str) -> Table:
    """The whole file. Raises: Unloadable (empty, truncated, corrupt, unsupported), OSError."""
    with open(path, "rb") as f:
        if not f.seek(0, 2):
            raise Unloadable("empty", "the file has no bytes")
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _walk(data)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Unloadable("corrupt", "its footer is not what Parquet writes ({})".format(error)) from None
    finally:
        data.close()


def _walk(data: mmap.mmap) -> Table:
    size = len(data)
    if data[:4] != MAGIC[:size]:
        raise Unloadable("unsupported" if data[:4] == _ENCRYPTED else "corrupt", "it does not begin as Parquet does")
    if size < 12 or data[-4:] not in (MAGIC, _ENCRYPTED):
        raise Unloadable("truncated", "it begins as a Parquet file and has no end: cut off, or never closed")
    if data[-4:] == _ENCRYPTED:
        raise Unloadable("unsupported", "its footer is encrypted")
    length = int.from_bytes(data[-8:-4], "little")
    begin = size - 8 - length
    if begin < 4:
        raise Unloadable("corrupt", "a footer of {} bytes in a file of {}".format(length, size))
    if length > FOOTER_LIMIT_BYTES:
        raise Unloadable("unsupported", "a footer of {} bytes".format(length))
    raw = data[begin : size - 8]
    try:
        footer, end = thrift.read_struct(raw, 0)
    except ValueError as error:
        raise Unloadable("corrupt", "its footer is damaged: {}".format(error)) from None
    if end != length:
        raise Unloadable("corrupt", "its footer ends {} bytes early".format(length - end))
    groups: List[Dict[int, Any]] = footer.get(4, [])
    leaves = [element for element in footer[2][1:] if not element.get(5)]  # the first is the root
    places: List[Tuple[int, int]] = []
    pages = summed = 0
    is_summary = bool(groups) and all(chunk.get(1) for group in groups for chunk in group[1])
    for group in groups:
        if len(group[1]) != len(leaves):
            raise Unloadable("corrupt", "a row group has {} columns, its schema {}".format(len(group[1]), len(leaves)))
        for chunk in [] if is_summary else group[1]:
            count, sums = _chunk(data, chunk, begin, places)
            pages, summed = pages + count, summed + sums
    if sum(group[3] for group in groups) != footer[3]:
        raise Unloadable("corrupt", "its row groups do not have the {} rows it says".format(footer[3]))
    at = 4
    has_blooms = any(chunk[3].get(14) and not chunk[3].get(15) for group in groups for chunk in group[1])
    for first, last in sorted(places + [(begin, size)]):
        if first < at:
            raise Unloadable("corrupt", "what lies in it overlaps at byte {}".format(first))
        # Some writers align row groups with zeros; an old writer's Bloom filter has no length.
        if data[at:first].strip(b"\x00") and not has_blooms:
            raise Unloadable("corrupt", "{} bytes that belong to nothing at byte {}".format(first - at, at))
        at = last
    names = tuple(b".".join(c[3][3]).decode("utf-8", "replace") for c in (groups[0][1] if groups else []))
    names = names or tuple(leaf[4].decode("utf-8", "replace") for leaf in leaves)
    by = footer.get(6, b"").decode("utf-8", "replace")
    return Table(footer[3], len(groups), names, pages, bool(pages) and summed == pages, by, is_summary)


def _chunk(data: mmap.mmap, chunk: Dict[int, Any], end: int, places: List[Tuple[int, int]]) -> Tuple[int, int]:
    """(pages, pages with a checksum) of one column chunk, which ends before the footer at `end`."""
    if chunk.get(1):
        raise Unloadable("unsupported", "its columns lie in other files")
    meta = chunk[3]
    name = b".".join(meta[3]).decode("utf-8", "replace")[:80]
    offsets = [offset for offset in (meta.get(11), meta[9]) if offset]
    if not offsets and not meta[7] and not meta[5]:
        return 0, 0  # a row group without rows need not have pages
    at = min(offsets)
    last = at + meta[7]
    if at < 4 or last > end or meta[7] < 0:
        raise Unloadable("corrupt", "column {} leaves the file".format(name))
    places.append((at, last))
    for offset, length in ((chunk.get(4), chunk.get(5)), (chunk.get(6), chunk.get(7)), (meta.get(14), meta.get(15))):
        if offset and length:
            if offset + length > end:
                raise Unloadable("corrupt", "an index of column {} leaves the file".format(name))
            places.append((offset, offset + length))
    if chunk.get(2) == last and last < end:  # Arrow before 18 repeated the chunk's metadata after it
        places.append((last, last + _length(data, last, end)))
    values = pages = sums = 0
    while at < last:
        try:
            head, used = thrift.read_struct(data[at : min(last, at + 4096)], 0)
        except ValueError:
            try:
                head, used = thrift.read_struct(data[at : min(last, at + _HEADER_LIMIT_BYTES)], 0)
            except ValueError as error:
                raise Unloadable("corrupt", "a page of column {} is damaged: {}".format(name, error)) from None
        at += used
        size = head[3]
        if size < 0 or at + size > last or head[1] not in (0, 1, 2, 3):
            raise Unloadable("corrupt", "a page of column {} leaves the column".format(name))
        if 4 in head:
            crc = 0
            for begin in range(at, at + size, _PIECE_BYTES):
                crc = zlib.crc32(data[begin : min(begin + _PIECE_BYTES, at + size)], crc)
            if crc != head[4] & 0xFFFFFFFF:
                raise Unloadable("corrupt", "a page of column {} is damaged (CRC)".format(name))
            sums += 1
        if head[1] in (0, 3):
            values += (head[5] if head[1] == 0 else head[8])[1]
        pages += 1
        at += size
    if at != last or values != meta[5]:
        raise Unloadable("corrupt", "column {} has {} values, not the {} it says".format(name, values, meta[5]))
    return pages, sums


def _length(data: mmap.mmap, at: int, end: int) -> int:
    """Bytes of the struct at `at`, 0 if there is none."""
    try:
        return thrift.read_struct(data[at : min(end, at + _HEADER_LIMIT_BYTES)], 0)[1]
    except ValueError:
        return 0
