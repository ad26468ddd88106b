"""Reads a log of any size once, in pieces, and keeps what matters: hits of patterns, tracebacks, how it ends.

Bytes as found: a carriage return ends a line, colours are taken off, a rank written before a line is read. Most lines
of a log differ in numbers only: without them they are of one kind, and time goes with the kinds of lines, not with
their number. Where no line is like another, words that told nothing a thousand times are passed over, but for samples
from everywhere and for the end of the log. Memory is bounded by limits on every list.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.diagnose import linekind, logend
from sojourn.diagnose.lines import MAX_LINE, bare, plain, time_of
from sojourn.diagnose.literals import BEGINS, gates_of
from sojourn.diagnose.prefilter import Lines
from sojourn.diagnose.tracebacks import is_ignored, is_source, said

OVERLAP = 512  # the ends of the parts of a line that are looked at twice
MIN_PIECE = 256 << 10  # smaller pieces are gathered
MAX_KINDS = 100_000  # kinds of lines that are remembered
MAX_TRIED = 100  # lines of one kind that are looked at closely, fewer long ones, and the last; others are counted
MAX_WORN = 1000  # kinds of lines near one word that told nothing new: from then on one line of every
SAMPLED = 4  # pieces is looked at, and
HELD = 3000  # so many of the last lines
SAID_AGAIN = 4  # so many times the work is a line that tells only what another kind of line told
TIRED = 12_000  # kinds that told nothing new, near any words: from then on TIRED_WORN are enough
TIRED_WORN = 20
MAX_LATE = 3000
LOOKED_BACK = 500 << 10  # bytes of each of the two
LONG_KIND = 256  # a longer one is known by its digest
LARGE = 2 << 20  # bytes from which on lines are looked for in whole pieces
MAX_HITS = 2000
TAIL = 64 << 10
LONGEST_LEAD = 80  # what a logger writes before a line
NOTABLE = 400  # lines kept as text for conditions on run.log_text

# What says of itself that it is over, or that it is only a warning of a library that does without.
_OVER = re.compile(
    r"(?i)\bresum(?:ed|ing) normal\b|\b(?:error|connection|network|link)\b.{0,40}\b(?:resolved|restored|recovered)\b"
    r"|\bsucceeded (?:after|on) (?:retry|attempt|\d)|\bINFO\b.*Unable to initialize backend |\d DEBUG : "
    r"|\bW (?:tensorflow|external)/(?!\S*(?:op_kernel|runtime/executor))\S+\.cc:\d+\]"
    r"(?!.* allocation summary follows|.*\(rounded to (?!.*not a failure))"
    r"|\[W[\d :.]{0,40}socket\.cpp:\d+\] \[c10d\] The (?:client socket has failed|hostname of|IPv6 network)"
)


@dataclass(frozen=True)
class Hit:
    """A pattern found. `line`: the first one, without colours and rank; `number`: from 1; `last`: of the last one;
    `kind`: of `linekind.KINDS`; `at`: the time that stands before the first one, "" where none does.
    """

    gotcha: str
    pattern: Pattern
    line: str
    number: int
    rank: int | None
    last: int
    times: int = 1
    kind: str = linekind.ERROR
    at: str = ""

    @property
    def is_proof(self) -> bool:
        """Whether the text alone proves its gotcha: a warning of what may end a run does not."""
        return self.pattern.proves and self.kind != linekind.WARNING


@dataclass(frozen=True)
class Raised:
    """A Python traceback: where it began, its rank, the line that names the exception ("" = cut off)."""

    number: int
    rank: int | None
    said: str


Notable = tuple[int, int | None, str]


@dataclass(frozen=True)
class LogSeen:
    """A log that was read. `notable`: the first lines in which a pattern was found, (number, rank, text); `lines`: how
    many lines it had.
    """

    hits: tuple[Hit, ...]
    raised: tuple[Raised, ...]
    end: logend.End
    tail: str
    notable: tuple[Notable, ...]
    lines: int
    size_bytes: int

    @property
    def text(self) -> str:
        """The lines that tell something, and the end."""
        return "\n".join([*(text for _, _, text in self.notable), self.tail])


_Row = tuple[int, bytes, bytes]  # the number of a line, the line before, the line
_Key = tuple[str, str, int | None, str]  # of a hit: gotcha, regex, rank, kind


class _Kind:
    """Lines that differ in numbers only. `again`: how many were not looked at, `last` and `line`: the last of them."""

    __slots__ = ("again", "gates", "keys", "last", "line", "tried")

    def __init__(self, gates: list[bytes]) -> None:
        self.gates = gates
        self.tried = self.again = self.last = 0
        self.line = b""
        self.keys: list[_Key] = []


class _Piece:
    """The lines of a piece, and which of the log they are. `own`: of each, where long ones were cut into parts."""

    def __init__(self, lines: Sequence[bytes], before: int, own: Sequence[int] = ()) -> None:
        self.lines, self._before, self._own = lines, before, own

    def number(self, index: int) -> int:
        """The number of a line in the log, from 1."""
        return self._before + (self._own[index] if self._own else index) + 1

    def row(self, index: int) -> _Row:
        """A line to look at later."""
        before = self.lines[index - 1][-OVERLAP:] if index else b""
        return self.number(index), before, self.lines[index]

    @property
    def ends(self) -> int:
        """How many lines of the log are whole when the piece is over."""
        return self.number(len(self.lines) - 1) - 1


class Scan:
    """One reading. `feed` pieces in order, then `done`. `gotchas`: whose patterns are looked for."""

    def __init__(self, gotchas: Sequence[Gotcha]) -> None:
        self._gate = gates_of(tuple(gotchas))
        self._quiet: set[bytes] = set()
        self._kinds: dict[bytes, _Kind] = {}
        self._worn: dict[Any, int] = {}  # of each gate, or of its code where the log is large
        self._wanted: Any = None  # which codes are looked for in a large log,
        self._passed: Any = None  # and which not any more
        self._pieces = 0
        self._fruitless = 0
        self._enough = MAX_WORN
        self._late: list[_Row] = []
        self._held: list[tuple[_Piece, bytes]] = []  # the last ones of a large log
        self._hits: dict[_Key, Hit] = {}  # as first seen
        self._seen: dict[_Key, list[int]] = {}  # of each: the number of its last line, how many lines
        self._raised: list[Raised] = []
        self._notable: list[Notable] = []
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
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1  # a pair of both is not to be parted
        if not cut:
            cut = len(data)
        self._rest = data[cut:]
        self._look(data[:cut])

    def done(self) -> LogSeen:
        """What was seen."""
        if self._rest:
            self._look(self._rest)
            self._rest = b""
        self._look_back()
        tail = plain(self._tail)
        found = [replace(hit, last=self._seen[key][0], times=self._seen[key][1]) for key, hit in self._hits.items()]
        hits = tuple(sorted(found, key=lambda hit: hit.number))
        raised = tuple(sorted(self._raised, key=lambda one: one.number))
        first = self._lines - tail.count("\n")
        return LogSeen(hits, raised, logend.find_end(tail, first), tail, tuple(self._notable), self._lines, self._bytes)

    def _look(self, data: bytes) -> None:
        data = data.replace(b"\r\n", b"\n")
        self._finish_traceback(data)
        piece = (self._look_at_many if self._bytes > LARGE else self._look_at_all)(data)
        self._lines = piece.ends

    def _look_at_all(self, data: bytes) -> _Piece:
        lines, own = _parted(data)
        piece = _Piece(lines, self._lines, own)
        kinds = letters(b"\n".join(lines)).split(b"\n")
        fresh = set(kinds) - self._quiet
        loud = {kind for kind in fresh if self._gate.any.search(kind)}
        if len(self._quiet) < MAX_KINDS:
            self._quiet |= fresh - loud
        for index, kind in enumerate(kinds):
            if kind in loud:
                self._meet(piece, index, kind)
        return piece

    def _look_at_many(self, data: bytes) -> _Piece:
        """The same for a piece of a large log, where most lines are to be passed over without being touched."""
        prefilter, known = self._gate.prefilter, self._kinds
        if self._wanted is None:
            self._wanted, self._passed = prefilter.tables()
        rows = Lines(data)
        piece = _Piece(rows, self._lines)
        if rows.longest > MAX_LINE:
            lines, own = _parted(data)
            data, piece = b"\n".join(lines), _Piece(lines, self._lines, own)
        kinds = letters(data)
        near = prefilter.near(kinds, self._wanted)
        again: dict[bytes, int] = {}
        for at, index, kind in near.lines():
            key = _key(kind)
            state = known.get(key)
            if state is not None and state.tried >= MAX_TRIED:
                state.again += 1
                again[key] = index
            else:
                self._meet(piece, index, kind, near.codes(at))
        for key, index in again.items():
            known[key].last, known[key].line = piece.number(index), piece.lines[index]
        self._held = [*self._held[-1:], (piece, kinds)]
        self._pieces += 1
        if self._pieces % SAMPLED == 0 and self._passed.any():
            passed = prefilter.near(kinds, self._passed)
            self._put_off([piece.row(index) for _, index, _ in passed.lines(passed.last_of_each())])
        return piece

    def _meet(self, piece: _Piece, index: int, kind: bytes, codes: Sequence[int] = ()) -> None:
        """A line that a pattern is near: looked at closely, unless its kind or its words were too often. `codes`: what
        the prefilter saw in it."""
        state = self._kinds.get(_key(kind))
        if state is not None and state.tried >= MAX_TRIED:
            state.again += 1
            state.last, state.line = piece.number(index), piece.lines[index]
            return
        if state is not None:
            self._closely(piece.lines, index, piece.number(index), state)
            return
        words: Sequence[Any] = codes or self._gate.inside(kind)
        if all(self._worn.get(word, 0) >= self._enough for word in words):
            self._put_off([piece.row(index)])
            return
        state = _Kind(self._gate.inside(kind))
        if len(self._kinds) < MAX_KINDS:
            self._kinds[_key(kind)] = state
        is_new = self._closely(piece.lines, index, piece.number(index), state)
        cost = 0 if is_new else 1 + len(kind) // 200  # a long line is as much work as several
        self._fruitless += SAID_AGAIN * cost if state.keys else cost
        for word in words:
            self._worn[word] = 0 if is_new else self._worn.get(word, 0) + cost
        is_tired = self._enough == MAX_WORN and self._fruitless >= TIRED
        if is_tired:
            self._enough = TIRED_WORN
        if codes:
            for word in self._worn if is_tired else words:
                if not isinstance(word, bytes):
                    self._passed[word] = is_passed = self._worn[word] >= self._enough
                    self._wanted[word] = not is_passed

    def _put_off(self, rows: list[_Row]) -> None:
        """Samples of what was passed over, for the end; where they are too many, every other one goes."""
        self._late += rows
        if len(self._late) > 2 * MAX_LATE:
            del self._late[::2]

    def _look_back(self) -> None:
        """At the end: at what was put off, at the last lines passed over, at the last line of each kind seen often."""
        last: list[_Row] = []
        for piece, kinds in self._held if self._passed is not None and self._passed.any() else ():
            near = self._gate.prefilter.near(kinds, self._passed)
            last += [piece.row(index) for _, index, _ in near.lines(near.last(HELD))]
        late = self._late
        while len(late) > MAX_LATE or sum(len(line) for _, _, line in late) > LOOKED_BACK:
            late = late[1::2]
        for number, before, line in sorted({*late, *_within(last[-HELD:], LOOKED_BACK)}):
            self._closely((before, line), 1, number, _Kind(self._gate.inside(letters(line))))
        for state in self._kinds.values():
            for key in state.keys if state.again else ():
                seen = self._seen[key]
                seen[:] = max(seen[0], state.last), seen[1] + state.again
            if state.again and self._gate.begins not in state.gates:
                self._closely((state.line,), 0, state.last, state)

    def _finish_traceback(self, data: bytes) -> None:
        """A traceback that was cut off by the end of the piece before."""
        if self._raised and not self._raised[-1].said:
            last = self._raised[-1]
            lines = data[: 16 * MAX_LINE].replace(b"\r", b"\n").split(b"\n")
            self._raised[-1] = replace(last, said=said(lines, -1, last.rank))

    def _closely(self, lines: Sequence[bytes], index: int, number: int, state: _Kind) -> bool:
        """Whether the line told of something that no line told before."""
        before = len(self._hits) + len(self._raised)
        state.tried += 1 + min(len(lines[index]), MAX_LINE) // 400
        if not state.gates:
            return False
        line = plain(lines[index][:MAX_LINE])
        rank, text = bare(line)
        lowered = text.lower()
        found = [
            (gotcha, pattern) for gate in state.gates for gotcha, pattern in self._gate.matching(gate, text, lowered)
        ]
        lead, is_traceback, _ = text.partition(BEGINS) if self._gate.begins in state.gates else ("", "", "")
        if not found and not is_traceback:
            return False
        if index and is_source(lines[index - 1], lines[index]):
            return False  # it may speak of errors that did not come
        if is_ignored(lines, index) or _OVER.search(text) or linekind.is_no_event(text):
            return False
        sorts = {(pattern.fatal, pattern.final) for _, pattern in found}
        kinds = {one: linekind.kind_of(text, is_fatal=one[0], is_final=one[1]) for one in sorts}
        keys = [(gotcha, pattern.regex, rank, kinds[pattern.fatal, pattern.final]) for gotcha, pattern in found]
        for key, (_, pattern) in zip(keys, found, strict=True):
            self._note(key, pattern, text, number, line)
        if is_traceback and len(lead) <= LONGEST_LEAD and len(self._raised) < MAX_HITS:
            self._raised.append(Raised(number, rank, said(lines, index, rank, lead)))
        if keys:
            state.keys = [key for key in keys if key in self._hits]
        if (keys or is_traceback) and len(self._notable) < NOTABLE:
            self._notable.append((number, rank, text[:2000]))
        return len(self._hits) + len(self._raised) > before

    def _note(self, key: _Key, pattern: Pattern, text: str, number: int, line: str) -> None:
        seen = self._seen.get(key)
        if seen is not None:
            seen[0] = max(number, seen[0])
            seen[1] += 1
        elif len(self._hits) < MAX_HITS:
            self._seen[key] = [number, 1]
            self._hits[key] = Hit(
                key[0], pattern, text.strip()[:500], number, key[2], number, kind=key[3], at=time_of(line)
            )


def scan_log(data: bytes, gotchas: Sequence[Gotcha]) -> LogSeen:
    """A log that is in memory already."""
    scan = Scan(gotchas)
    scan.feed(data)
    return scan.done()


def _within(rows: list[_Row], limit_bytes: int) -> list[_Row]:
    """The last of them, of so many bytes."""
    for at in range(len(rows) - 1, -1, -1):
        limit_bytes -= len(rows[at][2])
        if limit_bytes < 0:
            return rows[at + 1 :]
    return rows


def _key(kind: bytes) -> bytes:
    return kind if len(kind) <= LONG_KIND else hashlib.md5(kind, usedforsecurity=False).digest()


def _parted(data: bytes) -> tuple[list[bytes], list[int]]:
    """(lines, of each the number from 0 of the line it is of; nothing where no line is too long)."""
    lines = data.replace(b"\r", b"\n").split(b"\n")
    if max(map(len, lines)) <= MAX_LINE:
        return lines, []
    parts, own = [], []
    for number, line in enumerate(lines):
        for start in range(0, max(1, len(line) - OVERLAP), MAX_LINE - OVERLAP):
            parts.append(line[start : start + MAX_LINE])
            own.append(number)
    return parts, own
