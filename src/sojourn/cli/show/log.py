"""A run's log on a terminal: whole lines, colours dropped, whatever else a terminal would obey shown escaped."""

from __future__ import annotations

import codecs
import re

from sojourn.cli.show.text import clean

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")
LONGEST = 1 << 16  # characters of a line that never ends


class Lines:
    """Lines from bytes that come in pieces. Of a line that is rewritten with carriage returns, only its last form."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._rest = ""
        self._shown_bar = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes. Of a bar that moves, its last whole form is one."""
        *whole, self._rest = (self._rest + self._decode(chunk)).split("\n")
        if whole and not whole[0] and self._shown_bar:
            del whole[0]  # the newline that ends a bar already shown
        out = [_seen(line) for line in whole]
        *bars, rest = self._rest.split("\r")
        bar = next((text for text in reversed(bars) if text), "")
        self._shown_bar = bool(bar) or (self._shown_bar and not whole)
        if bar:
            out.append(_seen(bar))
            self._rest = rest
        if len(self._rest) > LONGEST:
            out.append(_seen(self._rest))
            self._rest = ""
        return out

    def end(self) -> list[str]:
        """What was left without a newline."""
        rest, self._rest = self._rest + self._decode(b"", True), ""
        return [_seen(rest)] if rest else []


def whole(text: str) -> list[str]:
    """The lines of a piece of log that is already text."""
    return [_seen(line) for line in text.rstrip("\n").split("\n")] if text else []


def _seen(line: str) -> str:
    shown = [part for part in line.split("\r") if part]
    return "    ".join(clean(piece) for piece in _COLOUR.sub("", shown[-1]).split("\t")) if shown else ""
