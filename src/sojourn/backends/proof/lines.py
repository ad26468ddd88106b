"""Text files in blocks of whole lines, in bounded memory, with the line number in every complaint."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from sojourn.formats.damage import Unloadable

LIMIT_BYTES = 64 << 20  # of a line
BLOCK_BYTES = 1 << 20
EXPONENT = re.compile(r"e\+?[0-9]{3}")  # of a number that may exceed a float, in lower case
_DIGITS = 150  # a number of 309 digits contains this many from one multiple of it to the next


class Block(NamedTuple):
    """Some whole lines. `line`: the first one's number; `has_end`: whether the last one has a line end."""

    text: str
    line: int
    has_end: bool

    @property
    def lines(self) -> list[str]:
        """Its lines without line ends."""
        lines = self.text.split("\n")
        if self.has_end:
            lines.pop()
        return [line.rstrip("\r") for line in lines] if "\r" in self.text else lines


def encoding(head: bytes) -> str:
    """The text's encoding, "utf-16" or "utf-32" if it starts with that byte order mark; else "utf-8"."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


class _AsUtf8:
    """A text in another encoding, read as if it were UTF-8."""

    def __init__(self, f: BinaryIO, encoding: str) -> None:
        self._file, self._encoding = f, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = b""

    def read(self, count: int) -> bytes:
        """At most `count` bytes; b"" at the end. Raises: Unloadable, OSError."""
        while not self._rest:
            raw = self._file.read(count)
            try:
                self._rest = self._decoder.decode(raw, final=not raw).encode("utf-8")
            except UnicodeError as error:
                if not raw:
                    raise Unloadable("truncated", "it ends inside a character") from None
                raise Unloadable("unparseable", f"not {self._encoding.upper()}: {error}") from None
            if not raw:
                break
        part, self._rest = self._rest[:count], self._rest[count:]
        return part

    def readline(self, limit: int) -> bytes:
        """Up to the next line end, or `limit` bytes. Raises: Unloadable, OSError."""
        parts, size = [], 0
        while size < limit:
            part = self.read(min(limit - size, BLOCK_BYTES))
            line, end, after = part.partition(b"\n")
            parts.append(line + end)
            size += len(line) + len(end)
            if end or not part:
                self._rest = after + self._rest
                break
        return b"".join(parts)


def blocks(file: BinaryIO) -> Iterator[Block]:
    """A text in UTF-8, or in its mark's encoding, in blocks of about BLOCK_BYTES, each ending with a line.

    Raises: Unloadable (corrupt for zero bytes, unparseable if not UTF-8, truncated if it ends inside a character,
    unsupported over LIMIT_BYTES a line), OSError.
    """
    how = encoding(file.read(4))
    file.seek(0)
    f = _AsUtf8(file, how) if how != "utf-8" else file
    line = 1
    while True:
        raw = f.read(BLOCK_BYTES)
        if not raw:
            return
        if not raw.endswith(b"\n"):
            raw += f.readline(LIMIT_BYTES + 1)
        begin = raw.rfind(b"\n", 0, len(raw) - 1) + 1
        if len(raw) - begin > LIMIT_BYTES:
            number = line + raw.count(b"\n", 0, begin)
            raise Unloadable("unsupported", f"line {number} has more than {LIMIT_BYTES >> 20} MiB")
        at = raw.find(b"\x00")
        if at >= 0:
            number = line + raw.count(b"\n", 0, at)
            raise Unloadable("corrupt", f"line {number} holds zero bytes: a hole, or not text")
        has_end = raw.endswith(b"\n")
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            number = line + raw.count(b"\n", 0, error.start)
            if not has_end and error.reason == "unexpected end of data":
                raise Unloadable("truncated", f"it ends inside a character, on line {number}") from None
            raise Unloadable(
                "unparseable", f"line {number}: not UTF-8: damaged, or written in another encoding"
            ) from None
        yield Block(text, line, has_end)
        line += raw.count(b"\n")


def has_long_number(text: str) -> bool:
    """It may contain a number with more digits than a float holds (309)."""
    return any(text[at : at + _DIGITS].isdigit() for at in range(0, len(text) - _DIGITS + 1, _DIGITS))


def is_odd_json(text: str) -> bool:
    """It may contain a number that is not finite."""
    if "NaN" in text or "Infinity" in text or has_long_number(text):
        return True
    return EXPONENT.search(text.lower()) is not None
