"""Walks a tar archive: header checksums, names and links that stay inside, complete members, and its end.

Tar has no checksum over data. It does have an end, two blocks of zeros, which every writer adds on closing the
archive: an archive without them was cut at a member's boundary, and ordinary readers accept it silently.
Source: POSIX.1-2017 pax (ustar and pax formats); GNU tar manual, "Basic Tar Format"; 2026-11.
"""

from __future__ import annotations

import posixpath
from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Protocol

from sojourn.formats.damage import Unloadable

BLOCK = 512
_META_LIMIT_BYTES = 1 << 20  # of a pax header or a long name
_PIECE_BYTES = 1 << 20
_HOLE = bytes(4096)
_FILES = (b"0", b"\x00", b"7")  # whose data in the archive is the file


class Source(Protocol):
    """Anything that yields its bytes in order."""

    def read(self, count: int) -> bytes:
        """At most `count` bytes; b"" at the end."""
        ...


class Sink(Protocol):
    """Anything that takes bytes in order."""

    def write(self, piece: bytes) -> Any:
        """Take them."""
        ...


class Member(NamedTuple):
    """One file, link or folder in the archive. kind: its type character. `has_hole`: contains 4 KiB of zeros."""

    name: str
    bytes: int
    kind: str
    has_hole: bool = False


class Archive(NamedTuple):
    """members: in order, folders and links included. padding_bytes: zeros after the last member."""

    members: List[Member]
    padding_bytes: int


def is_header(block: bytes) -> bool:
    """The block is a header with a valid checksum (also signed sums, from old programs)."""
    if len(block) < BLOCK:
        return False
    try:
        told = int(block[148:156].rstrip(b" \x00") or b"x", 8)
    except ValueError:
        return False
    plain = block[:148] + b" " * 8 + block[156:]
    signed = sum(byte - 256 if byte > 127 else byte for byte in plain) if max(plain) > 127 else -1
    return told in (sum(plain), signed)


@contextmanager
def _nowhere(name: str, size_bytes: int) -> Iterator[Optional[Sink]]:
    yield None


def walk(source: Source, sink: Callable[[str, int], ContextManager[Optional[Sink]]] = _nowhere) -> Archive:
    """The whole archive, every byte read. `sink`: from a file's name and size, a second place for its bytes.

    Raises: Unloadable (empty, truncated, corrupt, escapes-root), OSError, and what `sink` does.
    """
    members: List[Member] = []
    words: Dict[str, str] = {}  # from pax headers and long names, for the next member
    at = 0
    while True:
        block = _exactly(source, BLOCK, "header")
        if not block:
            raise Unloadable("truncated", "its end (two blocks of zeros) is missing: cut off" if at else "no bytes")
        at += BLOCK
        if not block.strip(b"\x00"):
            if words:
                raise Unloadable("truncated", "it ends between a long name and its member")
            return Archive(members, BLOCK + _end(source))
        if not is_header(block):
            raise Unloadable(
                "corrupt", "the header at byte {} is damaged: its checksum does not fit".format(at - BLOCK)
            )
        kind, size = block[156:157], _number(block[124:136])
        if size < 0:
            raise Unloadable("corrupt", "a member of {} bytes".format(size))
        if kind in (b"x", b"g", b"L", b"K"):
            words.update(_words(kind, _data(source, size)))
            continue
        name = words.get("path") or _name(block)
        size = int(words["size"]) if words.get("size", "").isdigit() else size
        _check(name, kind, words.get("linkpath") or _text(block[157:257]))
        has_hole = False
        if kind not in (b"1", b"2", b"3", b"4", b"5", b"6"):
            with sink(name, size) if kind in _FILES else _nowhere(name, size) as out:
                has_hole = _skip(source, size, name, out)
        members.append(Member(name, size, kind.decode("latin-1"), has_hole))
        words = {}


def _check(name: str, kind: bytes, target: str) -> None:
    """Raises: Unloadable("escapes-root", "corrupt")."""
    if name.startswith("/") or ".." in name.split("/") or "\x00" in name:
        raise Unloadable("escapes-root", "a member is named {!r}".format(name[:80]))
    if kind in (b"3", b"4", b"6"):
        raise Unloadable("escapes-root", "{!r} in it is a device or a pipe".format(name[:80]))
    if kind in (b"1", b"2"):
        # A symbolic link is resolved from its own folder, a hard link from the archive's root.
        leads = posixpath.normpath(posixpath.join(posixpath.dirname(name) if kind == b"2" else "", target))
        if target.startswith("/") or leads == ".." or leads.startswith("../"):
            raise Unloadable("escapes-root", "the link {!r} in it leads to {!r}".format(name[:80], target[:80]))
    elif kind not in (b"0", b"\x00", b"5", b"7", b"S", b"D", b"V"):
        raise Unloadable("unsupported", "{!r} in it is of type {!r}".format(name[:80], kind))


def _end(source: Source) -> int:
    """Bytes of zeros after the first zero block."""
    count = 0
    while True:
        block = _exactly(source, BLOCK, "end")
        if not block:
            break
        if block.strip(b"\x00"):
            raise Unloadable("corrupt", "something follows its end")
        count += BLOCK
    if not count:
        raise Unloadable("truncated", "its end has one block of zeros in place of two: cut off")
    return count


def _exactly(source: Source, count: int, where: str) -> bytes:
    """`count` bytes, or b"" if none are left. Raises: Unloadable("truncated") in between."""
    parts, left = [], count
    while left:
        part = source.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    if left and left < count:
        raise Unloadable("truncated", "it ends inside a block of its {}".format(where))
    return b"" if left else b"".join(parts)


def _skip(source: Source, size: int, name: str, out: Optional[Sink]) -> bool:
    """Read a member; returns whether it contains a hole (looked for within each piece read)."""
    left, has_hole = size, False
    while left:
        part = source.read(min(left, _PIECE_BYTES))
        if not part:
            raise Unloadable("truncated", "it ends inside {!r}".format(name[:80]))
        has_hole = has_hole or _HOLE in part
        left -= len(part)
        if out:
            out.write(part)
    if size % BLOCK and not _exactly(source, -size % BLOCK, "padding"):
        raise Unloadable("truncated", "it ends behind {!r}".format(name[:80]))
    return has_hole


def _data(source: Source, size: int) -> bytes:
    if size > _META_LIMIT_BYTES:
        raise Unloadable("unsupported", "a name or pax header of {} bytes".format(size))
    raw = _exactly(source, size + -size % BLOCK, "names")
    if size and not raw:
        raise Unloadable("truncated", "it ends inside a name")
    return raw[:size]


def _words(kind: bytes, raw: bytes) -> Dict[str, str]:
    if kind in (b"L", b"K"):
        return {"path" if kind == b"L" else "linkpath": _text(raw)}
    found, at = {}, 0
    while at < len(raw):
        space = raw.find(b" ", at, at + 12)
        length = int(raw[at:space]) if space > at and raw[at:space].isdigit() else 0
        record = raw[at : at + length]
        key, equals, value = record[space - at + 1 : -1].partition(b"=")
        if not equals or not record.endswith(b"\n") or len(record) < length:
            raise Unloadable("corrupt", "a pax header in it is damaged")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        at += length
    # A header for all following members says nothing about one member's name or size.
    return found if kind == b"x" else {}


def _number(field: bytes) -> int:
    """Octal text, or GNU's binary form for larger numbers."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(bytes([field[0] & 0x7F if field[0] == 0x80 else 0xFF]) + field[1:], "big", signed=True)
    text = field.strip(b" \x00") or b"0"
    try:
        return int(text, 8)
    except ValueError:
        raise Unloadable("corrupt", "a size in it is no number") from None


def _name(block: bytes) -> str:
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\x00" else ""
    return prefix + "/" + _text(block[:100]) if prefix else _text(block[:100])


def _text(raw: bytes) -> str:
    return raw.split(b"\x00", 1)[0].decode("utf-8", "surrogateescape")
