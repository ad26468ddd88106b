"""Reads bzip2 and xz files in pieces, as `gz` does gzip: each stream's own checksums compared, nothing after the last
one, no bombs; and distinguishes the three.

Source: https://sourceware.org/bzip2 (one CRC per block, one per stream), https://tukaani.org/xz/xz-file-format.txt
1.2.1 (a check per block, CRC32 of headers and index, padding between streams in fours), 2026-11.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Iterator, Tuple

from sojourn.formats import gz
from sojourn.formats.damage import Unloadable

BZIP2 = b"BZh"
XZ = b"\xfd7zXZ\x00"
_MEMORY_BYTES = 192 << 20  # limit for unpacking; of the xz program's presets -9 takes most, 65 MiB


def is_packed(head: bytes) -> bool:
    """Whether the file starts like one of the three."""
    return head.startswith((gz.MAGIC, BZIP2, XZ))


def stream(f: BinaryIO, head: bytes) -> gz.Stream:
    """What the file unpacks to; it starts with `head` and is positioned at its start."""
    return gz.Stream(gz.pieces(f) if head.startswith(gz.MAGIC) else pieces(f, BZIP2 if head[:1] == b"B" else XZ))


def pieces(f: BinaryIO, magic: bytes) -> Iterator[bytes]:
    """Everything the file unpacks to, in pieces of at most 1 MiB; all checks are done when the iterator ends.

    Raises: Unloadable (empty, truncated, corrupt, unsafe, unsupported), OSError.
    """
    pending, made, taken, streams = f.read(gz.PIECE_BYTES), 0, 0, 0
    if not pending:
        raise Unloadable("empty", "the file has no bytes")
    while pending:
        if streams and magic == XZ:
            pending = _unpadded(f, pending)
            if not pending:
                return
        if not pending.startswith(magic[: len(pending)]):
            what = "bytes that belong to nothing follow its end" if streams else "it does not begin as its name says"
            raise Unloadable("corrupt", what)
        unpack, broken = _unpacker(magic)
        streams += 1
        while not unpack.eof:
            if unpack.needs_input:
                pending = pending or f.read(gz.PIECE_BYTES)
                if not pending:
                    raise Unloadable("truncated", "it ends inside its compressed data")
                taken += len(pending)
            try:
                piece = unpack.decompress(pending if unpack.needs_input else b"", gz.PIECE_BYTES)
            except broken as error:
                if "emory" in str(error):
                    raise Unloadable("unsupported", "to unpack it takes more memory than we give") from None
                raise Unloadable("corrupt", "it does not unpack: {}".format(error)) from None
            pending = b""
            made += len(piece)
            if made > gz.BOMB_BYTES and made > gz.BOMB_RATIO * taken:
                raise Unloadable("unsafe", "it unpacks to more than {} times its size".format(gz.BOMB_RATIO))
            if piece:
                yield piece
        pending = unpack.unused_data or f.read(gz.PIECE_BYTES)


def _unpadded(f: BinaryIO, pending: bytes) -> bytes:
    """What follows the zeros between two streams, whose number is a multiple of four. Raises: Unloadable."""
    zeros = 0
    while pending:
        rest = pending.lstrip(b"\x00")
        zeros += len(pending) - len(rest)
        pending = rest or f.read(gz.PIECE_BYTES)
        if rest:
            break
    if zeros % 4:
        raise Unloadable("corrupt", "{} bytes of zeros between or behind its streams".format(zeros))
    return pending


def _unpacker(magic: bytes) -> Tuple[Any, Any]:
    """(what takes the bytes, what it raises on damage). Raises: Unloadable if this Python was built without it."""
    try:
        if magic == BZIP2:
            import bz2

            return bz2.BZ2Decompressor(), (OSError, ValueError)
        import lzma
    except ImportError:
        raise Unloadable("unsupported", "this Python was built without what unpacks it") from None
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES), lzma.LZMAError
