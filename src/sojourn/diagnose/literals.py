"""What a log is searched for, made ready once for a catalog: the letters that a pattern's text must hold, its gate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.core.regexes import needle
from sojourn.diagnose.prefilter import Sieve

BEGINS = "Traceback (most recent call last)"


class Gates:
    """Made once for many readings."""

    def __init__(self, gotchas: tuple[Gotcha, ...]) -> None:
        self.gotchas = gotchas
        self.patterns: dict[bytes, list[tuple[str, Pattern]]] = {}
        for gotcha in gotchas:
            for pattern in gotcha.patterns:
                self.patterns.setdefault(pattern.gate.encode("latin-1"), []).append((gotcha.id, pattern))
        self.begins = letters(BEGINS.encode())
        words = {*self.patterns, self.begins}
        # A gate found at a place also stands for the shorter ones that it begins with.
        self._inside = {word: [word[:n] for n in range(1, len(word) + 1) if word[:n] in words] for word in words}
        trie = _trie(sorted(words))
        self.any = re.compile(trie)
        self._every = re.compile(b"(?=(" + trie + b"))")
        self._compiled: dict[str, tuple[str, re.Pattern[str]]] = {}
        self._sieve: Sieve | None = None

    @property
    def sieve(self) -> Sieve:
        """The same for whole pieces, made when the first log is large enough."""
        if self._sieve is None:
            self._sieve = Sieve({*self.patterns, self.begins})
        return self._sieve

    def inside(self, kind: bytes) -> list[bytes]:
        """The gates that stand in a line, as `letters` leaves it."""
        return list({part for hit in self._every.finditer(kind) for part in self._inside[hit.group(1)]})

    def holds(self, pattern: Pattern, text: str, lowered: str) -> bool:
        """Whether the pattern is in a line. `lowered`: the line in small letters. Compiled when it is first needed."""
        found = self._compiled.get(pattern.regex)
        if found is None:
            # Programs differ in capital letters.
            found = self._compiled[pattern.regex] = needle(pattern.regex), re.compile(pattern.regex, re.I)
        return found[0] in lowered and found[1].search(text) is not None


_READY: list[Gates] = []


def gates_of(gotchas: tuple[Gotcha, ...]) -> Gates:
    """Those of the same catalog, or new ones."""
    if not _READY or _READY[0].gotchas is not gotchas:
        _READY[:] = [Gates(gotchas)]
    return _READY[0]


def _trie(words: Sequence[bytes]) -> bytes:
    """A regex for the longest of the words that begins at a place; common beginnings are written once."""
    groups: dict[int, list[bytes]] = {}
    for word in words:
        groups.setdefault(word[0], []).append(word[1:])
    parts = []
    for first, rests in sorted(groups.items()):
        longer = [rest for rest in rests if rest]
        tail = _trie(longer) if longer else b""
        if longer and len(longer) < len(rests):
            tail = b"(?:" + tail + b")?"
        parts.append(re.escape(bytes([first])) + tail)
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"
