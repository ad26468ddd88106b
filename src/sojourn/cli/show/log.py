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

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes. A progress bar that is not complete yet counts as one line a piece."""
        *whole, self._rest = (self._rest + self._decode(chunk)).split("\n")
        out = [_seen(line) for line in whole]
        *bars, rest = self._rest.split("\r")
        if rest and len(rest) > LONGEST or any(bars) and rest == "":
            out.append(_seen(self._rest))
            self._rest = ""
        return out

    def end(self) -> list[str]:
        """What was left without a newline."""
        rest, self._rest = self._rest + self._decode(b"", True), ""
        return [_seen(rest)] if rest else []


def _seen(line: str) -> str:
    shown = [part for part in line.split("\r") if part]
    return "    ".join(clean(piece) for piece in _COLOUR.sub("", shown[-1]).split("\t")) if shown else ""
