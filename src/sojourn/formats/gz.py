"""Reads gzip files in pieces: every member's CRC and length compared, nothing after the last one, no bombs.

Source: RFC 1952; zlib itself checks CRC32 and ISIZE if given the gzip frame (wbits 31).
"""

from __future__ import annotations

import zlib
from typing import BinaryIO, Iterator

from sojourn.formats.damage import Unloadable

MAGIC = b"\x1f\x8b"
PIECE_BYTES = 1 << 20
# Deflate expands at most 1032 to 1; what people compress usually shrinks to a tenth or a hundredth.
BOMB_BYTES = 512 << 20
BOMB_RATIO = 100


def pieces(f: BinaryIO) -> Iterator[bytes]:
    """Everything the file inflates to, in pieces of at most 1 MiB; all checks are done when the iterator ends.

    Raises: Unloadable (empty, truncated, corrupt, unsafe), OSError.
    """
    taken = made = members = 0
    pending = f.read(PIECE_BYTES)
    if not pending:
        raise Unloadable("empty", "the file has no bytes")
    taken = len(pending)
    while pending:
        if not pending.startswith(MAGIC[: len(pending)]):
            what = "bytes that belong to nothing follow its end" if members else "it does not begin as a gzip file does"
            raise Unloadable("corrupt", what)
        inflate = zlib.decompressobj(31)
        members += 1
        while not inflate.eof:
            try:
                piece = inflate.decompress(pending, PIECE_BYTES)
            except zlib.error as error:
                raise Unloadable("corrupt", "it does not inflate: {}".format(error)) from None
            pending = inflate.unconsumed_tail
            made += len(piece)
            if made > BOMB_BYTES and made > BOMB_RATIO * taken:
                raise Unloadable("unsafe", "it inflates to more than {} times its size".format(BOMB_RATIO))
            if piece:
                yield piece
            if not pending and not inflate.eof:
                pending = f.read(PIECE_BYTES)
                taken += len(pending)
                # After all input is taken, output held back by a full piece may still come.
                if not pending and not piece:
                    raise Unloadable("truncated", "it ends inside its compressed data")
        pending = inflate.unused_data or f.read(PIECE_BYTES)
        taken += 0 if inflate.unused_data else len(pending)


class Stream:
    """`pieces` as a readable stream. What they raise, `read` raises."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, count: int) -> bytes:
        """At most `count` bytes; b"" at the end."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        part, self._rest = self._rest[:count], self._rest[count:]
        return part
