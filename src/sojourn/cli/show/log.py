"""A run's log in whole lines: on a terminal, colours are dropped and other control characters shown escaped."""

from __future__ import annotations

import codecs
import re

from sojourn.cli.show.text import clean

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")
LONGEST = 1 << 16  # characters of a line without an end


class Lines:
    """Lines from bytes that arrive in pieces. For a line rewritten with carriage returns, only its last form.

    `is_plain`: a line is not changed otherwise; encode it as UTF-8 with `surrogateescape` to get the original bytes.
    `is_live`: a moving progress bar is shown each time part of it arrives.
    """

    def __init__(self, is_plain: bool = False, is_live: bool = True) -> None:
        self._is_live = is_live
        self._seen = _last if is_plain else _seen
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._rest = ""
        self._shown_bar = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes, including a moving bar's last whole form."""
        *whole, self._rest = (self._rest + self._decode(chunk)).split("\n")
        if whole and not whole[0] and self._shown_bar:
            del whole[0]  # the newline after a bar already shown
        out = [self._seen(line) for line in whole]
        *bars, rest = self._rest.split("\r")
        bar = next((text for text in reversed(bars) if text), "")
        if bar and not self._is_live:
            self._rest = f"{bar}\r{rest}"
            return out
        self._shown_bar = bool(bar) or (self._shown_bar and not whole)
        if bar:
            out.append(self._seen(bar))
            self._rest = rest
        if len(self._rest) > LONGEST:
            out.append(self._seen(self._rest))
            self._rest = ""
        return out

    def end(self) -> list[str]:
        """What remains without a newline."""
        rest, self._rest = self._rest + self._decode(b"", True), ""
        return [self._seen(rest)] if rest else []


def whole(text: str) -> list[str]:
    """The lines of a piece of log that is already text."""
    return [_seen(line) for line in text.rstrip("\n").split("\n")] if text else []


def _last(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")


def _seen(line: str) -> str:
    return "    ".join(clean(piece) for piece in _COLOUR.sub("", _last(line)).split("\t"))
