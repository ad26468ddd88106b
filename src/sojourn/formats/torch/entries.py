"""The zip container of a PyTorch file: where each entry is, and whether it matches its CRC. Also over 4 GiB.

PyTorch itself reads only single-part, unencrypted archives, stored or (rarely) deflated; others may also use
bzip2 or LZMA.
Source: PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3; PyTorch's own layout as written by torch.save 2.13, 2026-11.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from sojourn.formats.crc import crc32
from sojourn.formats.torch.values import Damaged

LOCAL = struct.Struct("<4s5H3I2H")  # sig need flags method time date crc packed bytes name extra
CENTRAL = struct.Struct(
    "<4s6H3I5H2I"
)  # sig made need flags method time date crc packed bytes name extra comment disk iattr eattr offset
END = struct.Struct("<4s4H2IH")  # sig disk cd_disk here total cd_bytes cd_offset comment
END64 = struct.Struct("<4sQ2H2I4Q")
FIND64 = struct.Struct("<4sIQI")
BIG = 0xFFFFFFFF
CHUNK = 1 << 20
_DEFLATED, BZIP2, LZMA = 8, 12, 14
OF_TORCH = (0, _DEFLATED)  # methods
_METHODS = {9: "deflate64", 93: "zstandard", 95: "xz", 98: "PPMd", 99: "AES"}
_LZMA_HEADER_BYTES = 9
_APART_BYTES = 1 << 20  # from this entry size on, reading headers alone beats reading their surroundings
Read = Callable[[int, int], Iterator[memoryview]]  # (first byte, how many) -> these bytes, in pieces of any size
Look = Callable[[int, int], None]  # (first byte, how many): raises OSError if unreadable
_DICTIONARY_LIMIT_BYTES = 128 << 20  # of LZMA, which takes that much memory; 7-Zip's largest preset asks for 64 MiB


@dataclass(frozen=True)
class Entry:
    """One file in the archive. `header`: offset of its local header; `offset`, `packed`: its data's offset and size."""

    name: str
    header: int
    offset: int
    bytes: int
    packed: int
    method: int
    crc32: int


def entries(data: memoryview, path: str, methods: tuple[int, ...] = OF_TORCH, look: Look | None = None) -> list[Entry]:
    """The entries of the archive `data`, in directory order; each must be packed by one of `methods`.

    `look` is called before bytes are touched: touching an unreadable part of a map ends the process.
    Raises: Damaged ("truncated" without an end, "corrupt", "unparseable" if it is not a zip, "unsupported"),
    and what `look` raises.
    """
    look = look or _trust
    offset, size, count = _directory(data, path, look)
    look(offset, size)
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
            # Without flag 11 a name is in the writer's own code page, here assumed to be 437 (APPNOTE, appendix D).
            name = raw.decode("utf-8" if flags & 0x800 or raw.isascii() else "cp437")
        except UnicodeDecodeError:
            raise Damaged(path, "corrupt", "a name in its directory is broken") from None
        extra = bytes(data[at + name_bytes : at + name_bytes + extra_bytes])
        plain, packed, header = _wide(extra, plain, packed, header)
        if flags & 1:
            raise Damaged(path, "unsupported", f"{name} is encrypted")
        if method not in methods:
            how = _METHODS.get(method, f"method {method}") if method not in (BZIP2, LZMA) else "bzip2 or LZMA"
            raise Damaged(path, "unsupported", f"{name} is compressed by {how}, which we do not read here")
        start = _data_offset(data, header, raw, name, path, look)
        if start + packed > len(data):
            raise Damaged(path, "corrupt", f"{name} leaves the file")
        out.append(Entry(name, header, start, plain, packed, method, crc))
        offset = at + name_bytes + extra_bytes + comment_bytes
    return out


def content(data: memoryview, entry: Entry, read: Read | None = None) -> Iterator[memoryview]:
    """The entry's bytes in pieces of about 1 MiB, by `read` if given, which reads the same bytes as `data`.

    Raises: zlib.error if a compressed entry is broken; what `read` raises.
    """
    packed = read(entry.offset, entry.packed) if read else _slices(data, entry.offset, entry.packed)
    if not entry.method:
        yield from packed
        return
    unpack = _deflated(packed) if entry.method == _DEFLATED else _other(packed, entry)
    total = 0
    for piece in unpack:
        total += len(piece)
        if total > entry.bytes:
            raise zlib.error("more bytes than its directory says")
        yield memoryview(piece)


def _slices(data: memoryview, begin: int, count: int) -> Iterator[memoryview]:
    for at in range(begin, begin + count, CHUNK):
        yield data[at : min(at + CHUNK, begin + count)]


def _deflated(packed: Iterator[memoryview]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-15)
    pending: bytes = b""
    for part in packed:
        pending += bytes(part)
        while pending:
            piece = inflate.decompress(pending, CHUNK)
            pending = inflate.unconsumed_tail
            if piece:
                yield piece
            if not piece and not pending:
                break
    # The last piece may have left up to one match pending, with all input taken.
    while not inflate.eof:
        piece = inflate.decompress(b"", CHUNK)
        if not piece:
            raise zlib.error("it is cut off")
        yield piece


def _other(packed: Iterator[memoryview], entry: Entry) -> Iterator[bytes]:
    """For bzip2 and LZMA. LZMA may have no end mark (APPNOTE 4.4.4, flag 1): then its size is its end."""
    rest = b""
    while entry.method == LZMA and len(rest) < _LZMA_HEADER_BYTES and len(rest) < entry.packed:
        rest += bytes(next(packed))
    unpack, broken = _unpacker(rest, entry)
    at, total = _LZMA_HEADER_BYTES if entry.method == LZMA else 0, 0
    rest = rest[at:]
    while not unpack.eof and (total < entry.bytes or at < entry.packed):
        part = b""
        if unpack.needs_input:
            part, rest = rest or bytes(next(packed, b"")), b""
        at += len(part)
        try:
            piece = unpack.decompress(part, CHUNK)
        except broken as error:
            raise zlib.error(str(error)) from None
        if not piece and not part and not unpack.eof:
            break
        total += len(piece)
        if piece:
            yield piece
    if at < entry.packed or (unpack.eof and unpack.unused_data) or (not unpack.eof and entry.method == BZIP2):
        raise zlib.error("its compressed data ends elsewhere than its directory says")


def _unpacker(packed: bytes, entry: Entry) -> tuple[Any, Any]:
    """(what takes the entry's bytes, after the first nine for LZMA; what it raises on damage). Raises: zlib.error."""
    if entry.method == BZIP2:
        import bz2

        return bz2.BZ2Decompressor(), (OSError, ValueError)
    import lzma

    # Version of the packer (2 bytes), length of the properties (2), then one byte with three numbers, and the
    # dictionary.
    if len(packed) < _LZMA_HEADER_BYTES or packed[2:4] != b"\x05\x00" or packed[4] >= 225:
        raise zlib.error("its LZMA header is broken")
    size = struct.unpack_from("<I", packed, 5)[0]
    if size > _DICTIONARY_LIMIT_BYTES:
        raise zlib.error(f"it asks for {size} bytes of memory")
    rest, lc = divmod(packed[4], 9)
    pb, lp = divmod(rest, 5)
    if lc + lp > 4:
        raise zlib.error("its LZMA header is broken")
    wanted = {"id": lzma.FILTER_LZMA1, "dict_size": max(size, 4096), "lc": lc, "lp": lp, "pb": pb}
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[wanted]), lzma.LZMAError


def damage(data: memoryview, entry: Entry) -> str:
    """How the entry differs from the directory ("" if not): every byte is read for its CRC."""
    crc = total = 0
    try:
        for piece in content(data, entry):
            crc = crc32(piece, crc)
            total += len(piece)
    except zlib.error as e:
        return f"{entry.name} does not inflate: {e}"
    finally:
        release(data)
    if total != entry.bytes:
        return f"{entry.name} has {total} bytes, its directory says {entry.bytes}"
    return "" if crc == entry.crc32 else f"{entry.name} is damaged (CRC)"


def release(data: memoryview) -> None:
    """Free the memory of what was read of a mapped file; if needed again, it is reread from the file.

    So checking a file of any size takes only the memory of its largest entry. Call it before anything is written to the
    map: writes to a private map would be lost.
    """
    if isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED)


def is_spread(data: memoryview, path: str, look: Look) -> bool:
    """The headers are so far apart that the system's read-ahead around each mostly misses. Raises as `entries`."""
    return len(data) > _directory(data, path, look)[2] * _APART_BYTES


def sparse(data: memoryview) -> memoryview:
    """The same map, of which only scattered headers will be read: turns read-ahead off."""
    if isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        data.obj.madvise(mmap.MADV_RANDOM)
    return data


def dense(data: memoryview) -> memoryview:
    """The same map, all of which will be read: turns read-ahead on again."""
    if isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_NORMAL"):
        data.obj.madvise(mmap.MADV_NORMAL)
    return data


def _directory(data: memoryview, path: str, look: Look) -> tuple[int, int, int]:
    """(offset, bytes, entries) of the central directory."""
    if not len(data):
        raise Damaged(path, "empty", "it has no bytes")
    begin = max(0, len(data) - END.size - 65535)
    look(begin, len(data) - begin)
    tail = bytes(data[begin:])
    hit = tail.rfind(b"PK\x05\x06")
    # A comment may contain the mark too: the end record is the one whose comment ends with the file.
    at = hit
    while at >= 0 and (len(tail) - at < END.size or at + END.size + END.unpack_from(tail, at)[7] != len(tail)):
        at = tail.rfind(b"PK\x05\x06", 0, at)
    hit = at if at >= 0 else hit
    if hit < 0 or len(tail) - hit < END.size:
        look(0, min(4, len(data)))
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
        if at + END64.size <= finder:
            look(at, END64.size)
        if at + END64.size > finder or bytes(data[at : at + 4]) != b"PK\x06\x06":
            raise Damaged(path, "corrupt", "its end record is broken")
        row = END64.unpack_from(data, at)
        count, size, offset = row[7], row[8], row[9]
    if offset + size > base + hit:
        raise Damaged(path, "corrupt", "its directory leaves the file")
    return offset, size, count


def _trust(at: int, count: int) -> None:
    """Checks nothing."""


def _wide(extra: bytes, plain: int, packed: int, header: int) -> tuple[int, int, int]:
    """The three numbers, with those that did not fit taken from the directory row's zip64 field (id 1)."""
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


def _data_offset(data: memoryview, header: int, raw: bytes, name: str, path: str, look: Look) -> int:
    """The offset of the data after the local header at `header`, which must be valid and bear the same name."""
    if header + LOCAL.size > len(data):
        raise Damaged(path, "corrupt", f"{name} leaves the file")
    look(header, min(LOCAL.size + len(raw), len(data) - header))
    row = LOCAL.unpack_from(data, header)
    at = header + LOCAL.size
    if row[0] != b"PK\x03\x04" or row[9] != len(raw) or bytes(data[at : at + row[9]]) != raw:
        raise Damaged(path, "corrupt", f"the header of {name} is broken")
    return int(at + row[9] + row[10])


def read_all(data: memoryview, entry: Entry, limit_bytes: int, path: str, read: Read | None = None) -> bytes:
    """All bytes of a small entry. Raises: Damaged ("unsupported" over `limit_bytes`)."""
    if entry.bytes > limit_bytes:
        raise Damaged(path, "unsupported", f"{entry.name} has {entry.bytes} bytes, more than {limit_bytes}")
    try:
        return b"".join(bytes(piece) for piece in content(data, entry, read))
    except zlib.error as e:
        raise Damaged(path, "corrupt", f"{entry.name} does not inflate: {e}") from None
