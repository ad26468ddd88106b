"""What a log is searched for, made ready once for a catalog: the letters that a pattern's text must hold, its gate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.core.regexes import needle
from sojourn.diagnose.prefilter import Prefilter

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
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._needles: dict[bytes, list[tuple[str, str, Pattern]]] = {}
        self._sieve: Prefilter | None = None

    @property
    def prefilter(self) -> Prefilter:
        """The same for whole pieces, made when the first log is large enough."""
        if self._sieve is None:
            self._sieve = Prefilter({*self.patterns, self.begins})
        return self._sieve

    def inside(self, kind: bytes) -> list[bytes]:
        """The gates that stand in a line, as `letters` leaves it, in their order there."""
        return list(dict.fromkeys(part for hit in self._every.finditer(kind) for part in self._inside[hit.group(1)]))

    def matching(self, gate: bytes, text: str, lowered: str) -> list[tuple[str, Pattern]]:
        """(gotcha, pattern) of those behind a gate that are in a line. `lowered`: the line in small letters.

        A pattern is compiled when its needle is first seen.
        """
        rows = self._needles.get(gate)
        if rows is None:
            behind = self.patterns.get(gate, ())
            rows = self._needles[gate] = [(needle(pattern.regex), gotcha, pattern) for gotcha, pattern in behind]
        return [
            (gotcha, pattern)
            for word, gotcha, pattern in rows
            if word in lowered and self._regex(pattern).search(text) is not None
        ]

    def _regex(self, pattern: Pattern) -> re.Pattern[str]:
        found = self._compiled.get(pattern.regex)
        if found is None:
            # Programs differ in capital letters.
            found = self._compiled[pattern.regex] = re.compile(pattern.regex, re.I)
        return found


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
