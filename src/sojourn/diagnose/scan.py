"""Reads a log of any size once, in pieces, and keeps what matters: hits of patterns, tracebacks, how it ends.

Bytes as found: a carriage return ends a line, colours are taken off, a rank written before a line is read. Most lines
of a log differ in numbers only. What is left of them without digits is looked at once, so time goes with the kinds of
lines and not with their number; memory is bounded by limits on every list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.diagnose import logend

MAX_LINE = 64 << 10
MAX_KINDS = 200_000  # kinds of lines remembered as quiet
MAX_TRIED = 400  # lines of one kind that may be looked at closely without a hit
MAX_HITS = 2000
TAIL = 64 << 10
NOTABLE = 400  # lines kept as text for conditions on run.log_text

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_RANK = re.compile(
    r"\s*(?:\[(?:rank|default|Rank|RANK)?[ :_-]?(\d+)\]\s*:?|(\d{1,4}): |\[1,(\d+)\]<std(?:out|err)>:|"
    r"\((?:[\w.]+ )?(?:pid|rank)=(\d+)(?:, ip=[\d.]+)?\)|(?:rank|RANK|Rank)[ _:=]?(\d+)[\]:>]+)\s?"
)
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Failure|Abort\w*|NotFound\w*"
    r"|Unavailable|Denied)\b(?:: .*|$)|\w+(?:\.\w+)+: .+"
)
_BEGINS = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Hit:
    """A pattern found. `line`: the first one, without colours and rank; `number`: from 1; `last`: of the last one."""

    gotcha: str
    pattern: Pattern
    line: str
    number: int
    rank: int | None
    last: int
    times: int = 1


@dataclass(frozen=True)
class Raised:
    """A Python traceback: where it began, its rank, the line that names the exception ("" = cut off)."""

    number: int
    rank: int | None
    said: str


@dataclass(frozen=True)
class LogSeen:
    """A log that was read. `notable`: lines that some pattern was near; `lines`: how many lines it had."""

    hits: tuple[Hit, ...]
    raised: tuple[Raised, ...]
    end: logend.End
    tail: str
    notable: tuple[str, ...]
    lines: int
    size_bytes: int

    @property
    def text(self) -> str:
        """What conditions on `run.log_text` see."""
        return "\n".join([*self.notable, self.tail])


class Scan:
    """One reading. `feed` pieces in order, then `done`. `gotchas`: whose patterns are looked for."""

    def __init__(self, gotchas: Iterable[Gotcha]) -> None:
        self._watch = [(p.gate.encode(), g.id, p) for g in gotchas for p in g.patterns if p.gate]
        words = {gate for gate, _, _ in self._watch} | {letters(_BEGINS.encode())}
        self._any = re.compile(_trie(sorted(words)))
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._quiet: set[bytes] = set()
        self._tried: dict[bytes, int] = {}
        self._hits: dict[tuple[str, str, int | None], Hit] = {}
        self._raised: list[Raised] = []
        self._notable: list[str] = []
        self._rest = b""
        self._tail = b""
        self._lines = 0
        self._bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes of the log; pieces of about 1 MiB are best."""
        self._bytes += len(piece)
        self._tail = (self._tail + piece)[-TAIL:] if len(piece) < TAIL else piece[-TAIL:]
        data = self._rest + piece
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) > MAX_LINE:
            cut = len(data)
        self._rest = data[cut:]
        if cut:
            self._look(data[:cut])

    def done(self) -> LogSeen:
        """What was seen."""
        if self._rest:
            self._look(self._rest)
            self._rest = b""
        tail = plain(self._tail)
        hits = tuple(sorted(self._hits.values(), key=lambda hit: hit.number))
        first = self._lines - tail.count("\n")
        return LogSeen(
            hits, tuple(self._raised), logend.read(tail, first), tail, tuple(self._notable), self._lines, self._bytes
        )

    def _look(self, data: bytes) -> None:
        kinds = letters(data).split(b"\n")
        fresh = set(kinds) - self._quiet
        loud = {kind for kind in fresh if self._any.search(kind)}
        if len(self._quiet) < MAX_KINDS:
            self._quiet |= fresh - loud
        if loud:
            lines = data.replace(b"\r", b"\n").split(b"\n")
            for index, kind in enumerate(kinds):
                if kind in loud and kind not in self._quiet:
                    self._closely(lines, index, kind)
        self._lines += len(kinds) - 1

    def _closely(self, lines: Sequence[bytes], index: int, kind: bytes) -> None:
        rank, text = split_rank(plain(lines[index][:MAX_LINE]))
        number = self._lines + index + 1
        is_hit = False
        for gate, gotcha, pattern in self._watch:
            if gate in kind and self._regex(pattern).search(text):
                is_hit = True
                self._note(gotcha, pattern, text, number, rank)
        if text.lstrip().startswith(_BEGINS):
            is_hit = True
            if len(self._raised) < MAX_HITS:
                self._raised.append(Raised(number, rank, _said(lines, index, rank)))
        if is_hit:
            if len(self._notable) < NOTABLE:
                self._notable.append(text[:2000])
            return
        self._tried[kind] = self._tried.get(kind, 0) + 1
        if self._tried[kind] >= MAX_TRIED:
            self._quiet.add(kind)

    def _note(self, gotcha: str, pattern: Pattern, text: str, number: int, rank: int | None) -> None:
        key = (gotcha, pattern.regex, rank)
        old = self._hits.get(key)
        if old is None and len(self._hits) < MAX_HITS:
            self._hits[key] = Hit(gotcha, pattern, text.strip()[:500], number, rank, number)
        elif old is not None:
            self._hits[key] = Hit(gotcha, pattern, old.line, old.number, rank, number, old.times + 1)

    def _regex(self, pattern: Pattern) -> re.Pattern[str]:
        found = self._compiled.get(pattern.regex)
        if found is None:
            found = self._compiled[pattern.regex] = re.compile(pattern.regex)
        return found


def read(data: bytes, gotchas: Iterable[Gotcha]) -> LogSeen:
    """A log that is in memory already."""
    scan = Scan(gotchas)
    scan.feed(data)
    return scan.done()


def plain(data: bytes) -> str:
    """Text without colours, carriage returns as line ends."""
    return _COLOUR.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n"))


def split_rank(line: str) -> tuple[int | None, str]:
    """(rank written before the line, the line without it)."""
    found = _RANK.match(line)
    if not found:
        return None, line
    digits = next((group for group in found.groups() if group), None)
    return (int(digits) if digits else None), line[found.end() :]


def _said(lines: Sequence[bytes], index: int, rank: int | None) -> str:
    """The line that names the exception of the traceback at `index`: the first one that is not indented again."""
    for raw in lines[index + 1 : index + 600]:
        its, text = split_rank(plain(raw[:MAX_LINE]))
        if its != rank or not text.strip() or text[:1] in " \t|":
            continue
        if _EXCEPTION.match(text):
            return text.strip()[:500]
    return ""


def _trie(words: Sequence[bytes]) -> bytes:
    """A regex for any of the words in which common beginnings are written once."""
    if b"" in words:
        return b""
    groups: dict[int, list[bytes]] = {}
    for word in words:
        groups.setdefault(word[0], []).append(word[1:])
    parts = []
    for first, rests in sorted(groups.items()):
        head = re.escape(bytes([first]))
        parts.append(head if b"" in rests else head + _trie(rests))
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"
