"""Text files line by line, in bounded memory, with the line number in every complaint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from sojourn.wire.damage import Unloadable

LIMIT_BYTES = 64 << 20


def lines(f: BinaryIO) -> Iterator[tuple[int, str, bool]]:
    """(line number, the line without its end, whether it has an end) of a UTF-8 file.

    Raises: Unloadable (corrupt where there are zero bytes, unparseable where it is not UTF-8, truncated where it ends
    inside a character, unsupported over LIMIT_BYTES a line), OSError.
    """
    number = 0
    while True:
        raw = f.readline(LIMIT_BYTES + 1)
        if not raw:
            return
        number += 1
        if len(raw) > LIMIT_BYTES:
            raise Unloadable("unsupported", f"line {number} has more than {LIMIT_BYTES >> 20} MiB")
        if b"\x00" in raw:
            raise Unloadable("corrupt", f"line {number} holds zero bytes: a hole, or no text")
        has_end = raw.endswith(b"\n")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            if not has_end and error.reason == "unexpected end of data":
                raise Unloadable("truncated", f"it ends inside a character, on line {number}") from None
            raise Unloadable("unparseable", f"line {number}: not UTF-8") from None
        yield number, text.rstrip("\r\n") if has_end else text, has_end
