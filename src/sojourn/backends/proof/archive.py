"""Zip archives that loaders inspect: nothing in them is trusted before the whole frame adds up.

Things that ordinary zip readers ignore are refused here: bytes that belong to no entry, overlapping entries, local
headers that disagree with the directory, names that leave the archive, sizes found only in bombs.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from sojourn.formats.crc import crc32
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch.entries import BIG, CENTRAL, END, END64, FIND64, LOCAL, Entry
from sojourn.formats.torch.values import Damaged

# Deflate expands at most 1032 to 1. Arrays of zeros come near it, so a ratio alone condemns nothing small.
METHODS = (*torch_entries.OF_TORCH, torch_entries.BZIP2, torch_entries.LZMA)
BOMB_RATIO = 100
BOMB_BYTES = 512 << 20
_DESCRIPTOR_FLAG = 8
_ZIP64_NEEDS = 45  # the version that a reader needs (APPNOTE 4.4.3)
_PADDING = 0x4246  # "FB": what PyTorch aligns its entries with
_RELEASE_BYTES = 64 << 20  # of a mapped file kept in memory
_ENTRY_START = b"PK\x03\x04"


def open_archive(path: str) -> tuple[memoryview, list[Entry]]:
    """The archive's bytes (a private map) and its entries, in directory order, frame checked.

    The map lives as long as the view.
    Raises: Unloadable (empty, truncated, corrupt, unsafe, escapes-root, unsupported), OSError.
    """
    with open(path, "rb") as f:
        f.seek(0, 2)
        size_bytes = f.tell()
        if not size_bytes:
            raise Unloadable("empty", "the file has no bytes")
        data = torch_entries.sparse(memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)))
    try:
        entries = torch_entries.entries(data, path, METHODS)
    except Damaged as error:
        problem = "corrupt" if error.problem == "unparseable" else error.problem
        raise Unloadable(problem, str(error.fields["detail"])) from None
    check_frame(data, entries)
    return data, entries


def check_frame(data: memoryview, entries: Sequence[Entry]) -> None:
    """See the module docstring. Raises: Unloadable (corrupt, unsafe, escapes-root)."""
    at = 0
    if len({entry.name for entry in entries}) < len(entries):
        raise Unloadable("corrupt", "an entry occurs twice")
    for entry in sorted(entries, key=lambda e: e.header):
        if entry.name.startswith("/") or ".." in entry.name.split("/") or "\\" in entry.name or "\x00" in entry.name:
            raise Unloadable("escapes-root", f"an entry is named {entry.name[:80]!r}")
        if entry.header != at:
            what = (
                "overlaps the one before it" if entry.header < at else f"follows {entry.header - at} bytes of no entry"
            )
            raise Unloadable("corrupt", f"{entry.name[:80]} {what}")
        at = _end(data, entry)
    for entry in entries:
        if bytes(data[at : at + 4]) != b"PK\x01\x02":
            raise Unloadable("corrupt", "its directory does not follow its last entry")
        row = CENTRAL.unpack_from(data, at)
        _agree(data, entry, row, data[at + CENTRAL.size + row[10] :][: row[11]])
        at += CENTRAL.size + row[10] + row[11] + row[12]
    if bytes(data[at : at + 4]) == b"PK\x06\x06":
        at += END64.size + FIND64.size
    if bytes(data[at : at + 4]) != b"PK\x05\x06" or at + END.size + END.unpack_from(data, at)[7] != len(data):
        raise Unloadable("corrupt", "stray bytes follow its directory")
    total = sum(entry.bytes for entry in entries)
    if total > BOMB_BYTES and total > BOMB_RATIO * len(data):
        raise Unloadable("unsafe", f"{len(data)} bytes would inflate to {total}")


def _agree(data: memoryview, entry: Entry, row: tuple[Any, ...], extra: memoryview) -> None:
    """An entry's header and its directory row must agree on everything that has a meaning.

    Raises: Unloadable("corrupt").
    """
    head = LOCAL.unpack_from(data, entry.header)
    _, _, need, flags, _, time, date, *_, disk, attributes, _, _ = row
    own = data[entry.header + LOCAL.size + head[9] : entry.offset]
    is_wide = _ZIP64_NEEDS in (need, head[1])  # some writers know only at the end that they needed it
    if (
        (head[1] != need and not is_wide)
        or (head[2], head[4], head[5]) != (flags, time, date)
        or disk
        or attributes & ~1  # the one with a meaning: it is text
        or not _is_chain(own, entry)
        or not _is_chain(extra, None)
    ):
        raise Unloadable("corrupt", f"the header of {entry.name[:80]} and the directory disagree")


def _is_chain(extra: memoryview, entry: Entry | None) -> bool:
    """Extra fields, each with its size, that fill their space. PyTorch's contain only Z; zip64's, in the header of an
    `entry`, both its sizes, or nothing yet.
    """
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        at += 4 + size
        value = bytes(extra[at - size : at])
        if kind == _PADDING and value.strip(b"Z\x00"):
            return False
        if kind == 1 and entry and len(value) == 16 and value.strip(b"\x00"):
            if struct.unpack("<2Q", value) != (entry.bytes, entry.packed):
                return False
    return at == len(extra) or not bytes(extra[at:]).strip(b"\x00")


def _end(data: memoryview, entry: Entry) -> int:
    """Where the entry ends in the file, including its descriptor."""
    row = LOCAL.unpack_from(data, entry.header)
    flags, method, crc, packed, plain = row[2], row[3], row[6], row[7], row[8]
    end = entry.offset + entry.packed
    if method != entry.method or (method == 0 and entry.packed != entry.bytes):
        raise Unloadable("corrupt", f"the header of {entry.name[:80]} and the directory disagree")
    if not flags & _DESCRIPTOR_FLAG:
        told = (crc, packed, plain)
        if crc != entry.crc32 or not all(
            a in (b, BIG) for a, b in zip(told[1:], (entry.packed, entry.bytes), strict=True)
        ):
            raise Unloadable("corrupt", f"the header of {entry.name[:80]} and the directory disagree")
        return end
    if any(a not in (0, BIG, b) for a, b in ((crc, entry.crc32), (packed, entry.packed), (plain, entry.bytes))):
        raise Unloadable("corrupt", f"the header of {entry.name[:80]} and the directory disagree")
    # After the data: an optional signature, CRC and both sizes, of 4 or 8 bytes each (APPNOTE 4.3.9).
    for form in ("<4sIQQ", "<4sIII", "<IQQ", "<III"):
        size = struct.calcsize(form)
        found = struct.unpack_from(form, data, end) if end + size <= len(data) else ()
        if form.startswith("<4s"):
            if not found or found[0] != b"PK\x07\x08":
                continue
            found = found[1:]
        if found == (entry.crc32, entry.packed, entry.bytes):
            return end + size
    raise Unloadable("corrupt", f"what follows {entry.name[:80]} is not its description")


class Member:
    """One entry as a stream: inflated in pieces, with its CRC and size compared at the end."""

    def __init__(self, data: memoryview, entry: Entry, read: torch_entries.Read | None = None) -> None:
        self.entry = entry
        self._data = data
        self._pieces = torch_entries.content(data, entry, read)
        self._rest = memoryview(b"")
        self._crc = 0
        self._count = 0

    def read(self, count: int) -> bytes:
        """At most `count` bytes; b"" at the end. Raises: Unloadable("corrupt")."""
        parts: list[bytes] = []
        while count > 0 and (len(self._rest) or self._more()):
            part, self._rest = self._rest[:count], self._rest[count:]
            parts.append(bytes(part))
            count -= len(part)
        return b"".join(parts)

    def pieces(self) -> Iterator[memoryview]:
        """All remaining data, in pieces of about 1 MiB. Raises: Unloadable("corrupt")."""
        while len(self._rest) or self._more():
            piece, self._rest = self._rest, memoryview(b"")
            yield piece

    def _more(self) -> bool:
        try:
            self._rest = next(self._pieces, memoryview(b""))
        except zlib.error as error:
            raise Unloadable("corrupt", f"{self.entry.name[:80]} does not inflate: {error}") from None
        if len(self._rest):
            self._crc = crc32(self._rest, self._crc)
            self._count += len(self._rest)
            if self._count % _RELEASE_BYTES < len(self._rest):
                torch_entries.release(self._data)
            return True
        torch_entries.release(self._data)
        if self._count != self.entry.bytes or self._crc != self.entry.crc32:
            raise Unloadable("corrupt", f"{self.entry.name[:80]} is damaged: its checksum (CRC) does not match")
        return False


def is_archive(head: bytes) -> bool:
    """The file starts like a zip archive with entries."""
    return head.startswith(_ENTRY_START)


def names(path: str) -> list[str]:
    """The names in the directory of a zip; if unreadable, the one in its first header. Raises: OSError."""
    with open(path, "rb") as f:
        f.seek(0, 2)
        if not f.tell():
            return []
        data = torch_entries.sparse(memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)))
    try:
        return [entry.name for entry in torch_entries.entries(data, path, METHODS)]
    except Damaged:
        if len(data) < LOCAL.size or not is_archive(bytes(data[:4])):
            return []
        length = LOCAL.unpack_from(data)[9]
        return [bytes(data[LOCAL.size : LOCAL.size + length]).decode("utf-8", "replace")]


def is_torch(names: Sequence[str]) -> bool:
    """PyTorch wrote an archive with these entries, as far as visible; others may hold a data.pkl too."""
    for name in names:
        front, _, last = name.rpartition("/")
        if last == "data.pkl" and "/" not in front:
            front = name[: -len(last)]
            return len(names) == 1 or not {front + "version", front + ".data/version"}.isdisjoint(names)
    return False


def links(data: memoryview, entries: Sequence[Entry]) -> dict[str, str]:
    """Entries that are symbolic links, and their targets (a directory row's upper attributes are a Unix mode)."""
    found = {}
    at = min((entry.header for entry in entries), default=0)
    for entry in sorted(entries, key=lambda e: e.header):
        at = _end(data, entry)
    for entry in entries:
        row = CENTRAL.unpack_from(data, at)
        if (row[15] >> 16) & 0o170000 == 0o120000:
            found[entry.name] = Member(data, entry).read(4096).decode("utf-8", "replace")
        at += CENTRAL.size + row[10] + row[11] + row[12]
    return found
