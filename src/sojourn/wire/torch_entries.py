"""The zip container of a PyTorch file: where each entry lies, and whether it is what its CRC says. Sizes over 4 GiB
included.

Only what PyTorch itself can read: one part, no encryption, entries stored, or (rarely) deflated.
Source: PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3; PyTorch's own layout as written by torch.save 2.13, 2026-11.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from typing import Iterator

from sojourn.wire.torch_values import Damaged

LOCAL = struct.Struct("<4s5H3I2H")  # sig need flags method time date crc packed bytes name extra
CENTRAL = struct.Struct(
    "<4s6H3I5H2I"
)  # sig made need flags method time date crc packed bytes name extra comment disk iattr eattr offset
END = struct.Struct("<4s4H2IH")  # sig disk cd_disk here total cd_bytes cd_offset comment
END64 = struct.Struct("<4sQ2H2I4Q")
FIND64 = struct.Struct("<4sIQI")
BIG = 0xFFFFFFFF
CHUNK = 1 << 20
_DEFLATED = 8


@dataclass(frozen=True)
class Entry:
    """One file in the archive. `header`: where its local header starts; `offset`: where its bytes start; `packed` of
    them.
    """

    name: str
    header: int
    offset: int
    bytes: int
    packed: int
    method: int
    crc32: int


def entries(data: memoryview, path: str) -> list[Entry]:
    """The entries of the archive `data`, in the order of its directory.

    Raises: Damaged ("truncated" where the end is missing, "corrupt", "unparseable" where it is no zip, "unsupported").
    """
    offset, size, count = _directory(data, path)
    out = []
    for _ in range(count):
        if offset + CENTRAL.size > len(data):
            raise Damaged(path, "corrupt", "its directory leaves the file")
        row = CENTRAL.unpack_from(data, offset)
        signature, flags, method, crc, packed, plain = row[0], row[3], row[4], row[7], row[8], row[9]
        name_bytes, extra_bytes, comment_bytes, header = row[10], row[11], row[12], row[16]
        if signature != b"PK\x01\x02":
            raise Damaged(path, "corrupt", "its directory is broken")
        at = offset + CENTRAL.size
        raw = bytes(data[at : at + name_bytes])
        try:
            # Without flag 11 a name is in the writer's own code page, for which 437 stands (APPNOTE, appendix D).
            name = raw.decode("utf-8" if flags & 0x800 or raw.isascii() else "cp437")
        except UnicodeDecodeError:
            raise Damaged(path, "corrupt", "a name in its directory is broken") from None
        extra = bytes(data[at + name_bytes : at + name_bytes + extra_bytes])
        plain, packed, header = _wide(extra, plain, packed, header)
        if flags & 1 or method not in (0, _DEFLATED):
            raise Damaged(path, "unsupported", f"{name} is encrypted or compressed in a way PyTorch does not read")
        start = _data_offset(data, header, raw, name, path)
        if start + packed > len(data):
            raise Damaged(path, "corrupt", f"{name} leaves the file")
        out.append(Entry(name, header, start, plain, packed, method, crc))
        offset = at + name_bytes + extra_bytes + comment_bytes
    return out


def content(data: memoryview, entry: Entry) -> Iterator[memoryview]:
    """The entry's bytes in pieces of about 1 MiB. Raises: zlib.error where a deflated one is broken."""
    packed = data[entry.offset : entry.offset + entry.packed]
    if entry.method != _DEFLATED:
        for at in range(0, len(packed), CHUNK):
            yield packed[at : at + CHUNK]
        return
    inflate, total = zlib.decompressobj(-15), 0
    pending: bytes = b""
    for at in range(0, len(packed), CHUNK):
        pending += bytes(packed[at : at + CHUNK])
        while pending:
            piece = inflate.decompress(pending, CHUNK)
            pending = inflate.unconsumed_tail
            total += len(piece)
            if total > entry.bytes:
                raise zlib.error("more bytes than its directory says")
            if piece:
                yield memoryview(piece)
            if not piece and not pending:
                break
    # The last piece may have left up to one match inside, with all input taken.
    while not inflate.eof:
        piece = inflate.decompress(b"", CHUNK)
        if not piece:
            raise zlib.error("it is cut off")
        yield memoryview(piece)


def damage(data: memoryview, entry: Entry) -> str:
    """Why the entry is not what the directory says ("" where it is): every byte is read and its CRC taken."""
    crc = total = 0
    try:
        for piece in content(data, entry):
            crc = zlib.crc32(piece, crc)
            total += len(piece)
    except zlib.error as e:
        return f"{entry.name} does not inflate: {e}"
    finally:
        release(data)
    if total != entry.bytes:
        return f"{entry.name} has {total} bytes, its directory says {entry.bytes}"
    return "" if crc == entry.crc32 else f"{entry.name} is damaged (CRC)"


def release(data: memoryview) -> None:
    """Give back the memory of what was read of a mapped file; it comes again, from the file, when it is needed.

    So that checking a file of any size takes the memory of its largest entry. Only before anything in the map was
    written to: what was written to a private map would be gone.
    """
    if isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED)


def _directory(data: memoryview, path: str) -> tuple[int, int, int]:
    """(offset, bytes, entries) of the central directory."""
    if not len(data):
        raise Damaged(path, "empty", "it has no bytes")
    tail = bytes(data[max(0, len(data) - END.size - 65535) :])
    hit = tail.rfind(b"PK\x05\x06")
    if hit < 0 or len(tail) - hit < END.size:
        if bytes(data[:4]) == b"PK\x03\x04":
            raise Damaged(
                path, "truncated", "it starts as a PyTorch file and has no end: cut off while it was written or copied"
            )
        raise Damaged(path, "unparseable", "it is no zip archive")
    base = len(data) - len(tail)
    _, disk, cd_disk, _, count, size, offset, comment = END.unpack_from(tail, hit)
    if base + hit + END.size + comment != len(data):
        raise Damaged(path, "corrupt", "bytes follow its end")
    if disk or cd_disk:
        raise Damaged(path, "unsupported", "it is one part of several")
    finder = base + hit - FIND64.size
    if finder >= 0 and bytes(data[finder : finder + 4]) == b"PK\x06\x07":
        at = FIND64.unpack_from(data, finder)[2]
        if at + END64.size > finder or bytes(data[at : at + 4]) != b"PK\x06\x06":
            raise Damaged(path, "corrupt", "its end record is broken")
        row = END64.unpack_from(data, at)
        count, size, offset = row[7], row[8], row[9]
    if offset + size > base + hit:
        raise Damaged(path, "corrupt", "its directory leaves the file")
    return offset, size, count


def _wide(extra: bytes, plain: int, packed: int, header: int) -> tuple[int, int, int]:
    """The three numbers with what the zip64 field (id 1) of a directory row says about those that did not fit."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = list(struct.unpack_from(f"<{min(size, len(extra) - at - 4) // 8}Q", extra, at + 4))
            if plain == BIG and wide:
                plain = wide.pop(0)
            if packed == BIG and wide:
                packed = wide.pop(0)
            if header == BIG and wide:
                header = wide.pop(0)
        at += 4 + size
    return plain, packed, header


def _data_offset(data: memoryview, header: int, raw: bytes, name: str, path: str) -> int:
    """Where the bytes after the local header at `header` start; the header must be one and must bear the same name."""
    if header + LOCAL.size > len(data):
        raise Damaged(path, "corrupt", f"{name} leaves the file")
    row = LOCAL.unpack_from(data, header)
    at = header + LOCAL.size
    if row[0] != b"PK\x03\x04" or bytes(data[at : at + row[9]]) != raw:
        raise Damaged(path, "corrupt", f"the header of {name} is broken")
    return int(at + row[9] + row[10])


def read_all(data: memoryview, entry: Entry, limit_bytes: int, path: str) -> bytes:
    """All bytes of a small entry. Raises: Damaged ("unsupported" over `limit_bytes`)."""
    if entry.bytes > limit_bytes:
        raise Damaged(path, "unsupported", f"{entry.name} has {entry.bytes} bytes, more than {limit_bytes}")
    try:
        return b"".join(bytes(piece) for piece in content(data, entry))
    except zlib.error as e:
        raise Damaged(path, "corrupt", f"{entry.name} does not inflate: {e}") from None
