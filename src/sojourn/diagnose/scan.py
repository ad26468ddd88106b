"""Reads a log of any size once, in pieces, and keeps what matters: hits of patterns, tracebacks, how it ends.

Bytes as found: a carriage return ends a line, colours are taken off, a rank written before a line is read. Most lines
of a log differ in numbers only. What is left of them without digits is looked at once, so time goes with the kinds of
lines and not with their number; memory is bounded by limits on every list.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.diagnose import logend
from sojourn.diagnose.sieve import Lines, Sieve

MAX_LINE = 64 << 10
MIN_PIECE = 256 << 10  # smaller pieces are gathered
MAX_KINDS = 200_000  # kinds of lines remembered as quiet
MAX_TRIED = 100  # lines of one kind that are looked at closely; of more only their number is kept
MAX_WORN = 1500  # kinds of lines with one word that told nothing new; of later ones only the last are looked at
MAX_LATE = 300
TIRED = 20_000  # close looks that told nothing new, of all words together: then a kind has to be one of TIRED_WORN
TIRED_WORN = 20
LATE_IN_ALL = 10_000
LARGE = 2 << 20  # bytes from which on lines are looked for in whole pieces
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
_FRAME = re.compile(rb'^[^"]{0,80}File "[^"]+", line \d+(?:, in .*)?\r?$')
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


class _Gates:
    """What is looked for, made ready once for many readings."""

    def __init__(self, gotchas: tuple[Gotcha, ...]) -> None:
        self.gotchas = gotchas
        self.patterns: dict[bytes, list[tuple[str, Pattern]]] = {}
        for gotcha in gotchas:
            for pattern in gotcha.patterns:
                self.patterns.setdefault(pattern.gate.encode(), []).append((gotcha.id, pattern))
        self.begins = letters(_BEGINS.encode())
        words = {*self.patterns, self.begins}
        # A gate found at a place also stands for the shorter ones that it begins with.
        self.inside = {word: [part for part in words if word.startswith(part)] for word in words}
        trie = _trie(sorted(words))
        self.any = re.compile(trie)
        self.every = re.compile(b"(?=(" + trie + b"))")
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._sieve: Sieve | None = None

    @property
    def sieve(self) -> Sieve:
        """The same for whole pieces, made when the first log is large enough."""
        if self._sieve is None:
            self._sieve = Sieve({*self.patterns, self.begins})
        return self._sieve

    def regex(self, pattern: Pattern) -> re.Pattern[str]:
        """The pattern, compiled when it is first needed."""
        found = self._compiled.get(pattern.regex)
        if found is None:
            found = self._compiled[pattern.regex] = re.compile(pattern.regex, re.I)  # programs differ in it
        return found


_READY: list[_Gates] = []


def _gates_of(gotchas: tuple[Gotcha, ...]) -> _Gates:
    """Those of the same catalog, or new ones."""
    if not _READY or _READY[0].gotchas is not gotchas:
        _READY[:] = [_Gates(gotchas)]
    return _READY[0]


class Scan:
    """One reading. `feed` pieces in order, then `done`. `gotchas`: whose patterns are looked for."""

    def __init__(self, gotchas: Sequence[Gotcha]) -> None:
        self._gate = _gates_of(tuple(gotchas))
        self._quiet: set[bytes] = set()
        self._gates: dict[bytes, list[bytes]] = {}  # of loud kinds
        self._tried: dict[bytes, int] = {}
        self._worn: dict[bytes, int] = {}
        self._passing: dict[bytes, list[tuple[int, bytes]]] = {}
        self._late: dict[bytes, deque[tuple[int, bytes, bytes, bytes]]] = {}
        self._settled: dict[bytes, list[tuple[str, str, int | None]]] = {}
        self._again: dict[bytes, list[int]] = {}  # of kinds tried often enough: how often more, and the last line
        self._fruitless = 0
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
        if len(data) < MIN_PIECE:
            self._rest = data
            return
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
        share = max(1, LATE_IN_ALL // max(1, len(self._late)))
        for late in self._late.values():
            for number, before, line, kind in list(late)[-share:]:
                self._closely((before, line), 1, kind, number)
        for kind, (times, last) in self._again.items():
            for key in self._settled.get(kind, ()):
                old = self._hits[key]
                self._hits[key] = replace(old, last=max(old.last, last), times=old.times + times)
        tail = plain(self._tail)
        hits = tuple(sorted(self._hits.values(), key=lambda hit: hit.number))
        first = self._lines - tail.count("\n")
        return LogSeen(
            hits, tuple(self._raised), logend.read(tail, first), tail, tuple(self._notable), self._lines, self._bytes
        )

    def _look(self, data: bytes) -> None:
        self._finish_traceback(data)
        if self._bytes > LARGE:
            self._look_at_many(data)
            return
        kinds = letters(data).split(b"\n")
        fresh = set(kinds) - self._quiet
        loud = {kind: found.group() for kind in fresh if (found := self._gate.any.search(kind))}
        if len(self._quiet) < MAX_KINDS:
            self._quiet |= fresh - loud.keys()
        if loud:
            lines = data.replace(b"\r", b"\n").split(b"\n")
            for index, kind in enumerate(kinds):
                word = loud.get(kind)
                if word is None:
                    continue
                self._meet(lines, index, kind, word)
            self._keep_late(lines)
        self._lines += len(kinds) - 1

    def _look_at_many(self, data: bytes) -> None:
        """The same for a piece of a large log, where most lines are to be passed over without being touched."""
        sieve, lines = self._gate.sieve, Lines(data)
        for index, kind, codes in sieve.near(letters(data)):
            gates = self._gates.get(kind)
            if gates is None:
                gates = sieve.gates(kind, codes)
            if gates:
                self._meet(lines, index, kind, gates[0], gates)
        self._keep_late(lines)
        self._lines += len(lines) - 1

    def _meet(
        self, lines: Sequence[bytes], index: int, kind: bytes, word: bytes, gates: list[bytes] | None = None
    ) -> None:
        """A line that a pattern is near by `word`: looked at closely, unless too many told nothing."""
        number = self._lines + index + 1
        if self._tried.get(kind, 0) >= MAX_TRIED:
            again = self._again.setdefault(kind, [0, 0])
            again[0] += 1
            again[1] = number
            self._worn[word] = 0  # a kind that comes again and again wears nothing out
        elif kind in self._gates or self._worn.get(word, 0) < (MAX_WORN if self._fruitless < TIRED else TIRED_WORN):
            is_new = self._closely(lines, index, kind, number, gates)
            self._worn[word] = 0 if is_new else self._worn.get(word, 0) + 1
            self._fruitless += not is_new
        else:
            self._passing.setdefault(word, []).append((index, kind))

    def _keep_late(self, lines: Sequence[bytes]) -> None:
        """Of the lines of a piece that were passed over, the last ones of each word: they are looked at in the end."""
        for word, some in self._passing.items():
            late = self._late.setdefault(word, deque(maxlen=MAX_LATE))
            for index, kind in some[-MAX_LATE:]:
                late.append((self._lines + index + 1, lines[index - 1] if index else b"", lines[index], kind))
        self._passing.clear()

    def _finish_traceback(self, data: bytes) -> None:
        """A traceback that was cut off by the end of the piece before."""
        if self._raised and not self._raised[-1].said:
            last = self._raised[-1]
            lines = data[:MAX_LINE].replace(b"\r", b"\n").split(b"\n")
            self._raised[-1] = replace(last, said=_said(lines, -1, last.rank))

    def _closely(
        self, lines: Sequence[bytes], index: int, kind: bytes, number: int, known: list[bytes] | None = None
    ) -> bool:
        """Whether the line told of something that no line told before. `known`: the gates that stand in it."""
        before = len(self._hits) + len(self._raised)
        gates = self._gates.get(kind)
        if gates is None:
            gates = known
            if gates is None:
                found = {part for hit in self._gate.every.finditer(kind) for part in self._gate.inside[hit.group(1)]}
                gates = list(found)
            if len(self._gates) < MAX_KINDS:
                self._gates[kind] = gates
        self._tried[kind] = self._tried.get(kind, 0) + 1
        rank, text = split_rank(plain(lines[index][:MAX_LINE]))
        if index and text.startswith("    ") and _FRAME.search(lines[index - 1][-MAX_LINE:]):
            return False  # a line of the program's text, which may speak of errors that did not come
        keys = []
        for gate in gates:
            for gotcha, pattern in self._gate.patterns.get(gate, ()):
                if self._gate.regex(pattern).search(text):
                    keys.append((gotcha, pattern.regex, rank))
                    self._note(keys[-1], pattern, text, number)
        is_traceback = self._gate.begins in gates and text.lstrip().startswith(_BEGINS)
        if is_traceback and len(self._raised) < MAX_HITS:
            self._raised.append(Raised(number, rank, _said(lines, index, rank)))
        if keys:
            self._settled[kind] = [key for key in keys if key in self._hits]
        if (keys or is_traceback) and len(self._notable) < NOTABLE:
            self._notable.append(text[:2000])
        return len(self._hits) + len(self._raised) > before

    def _note(self, key: tuple[str, str, int | None], pattern: Pattern, text: str, number: int) -> None:
        old = self._hits.get(key)
        if old is None and len(self._hits) < MAX_HITS:
            self._hits[key] = Hit(key[0], pattern, text.strip()[:500], number, key[2], number)
        elif old is not None:
            self._hits[key] = replace(old, last=max(number, old.last), times=old.times + 1)


def read(data: bytes, gotchas: Sequence[Gotcha]) -> LogSeen:
    """A log that is in memory already."""
    scan = Scan(gotchas)
    scan.feed(data)
    return scan.done()


def plain(data: bytes) -> str:
    """Text without colours, carriage returns as line ends."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _COLOUR.sub("", text) if "\x1b" in text else text


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
