"""The chain of the journal: each line vouches for its own bytes and for the line before, so that no damage is silent.

A line of version 2 ends with `,"sum":"..."}`, the digest of everything before it on the line. `prev` is [number of the
record before, sum of the last such line]; `over`, if present, the digest of what lies between the two: lines of version
1, or a torn line, whose effect never began. The head, a separate file, holds number and sum of the newest line.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

VERSION = 2
UNKNOWN = "?"  # in `prev`: the previous line was unknown when this one was written
HEAD_BYTES = 384  # less than a sector, so it is written whole or not at all
_DIGITS = 32
_BEGIN, _OPEN, _CLOSE = b'{"v":2,"n":', b',"sum":"', b'"}'
_END_BYTES = len(_OPEN) + _DIGITS + len(_CLOSE)
_OURS = ("prev", "over", "sum")


@dataclass(frozen=True)
class Gap:
    """Part of the journal is lost or changed: `after` record `after` and `before` record `before`.

    `what`: one line for people. `mark`: distinguishes two damages at one place.
    """

    after: int
    before: int
    what: str
    mark: str = ""


@dataclass(frozen=True)
class Head:
    """What the newest append left. `stat`: the journal's identity then; `odd`: how often it was found different."""

    n: int
    sum: str
    size: int
    stat: tuple[int, ...]
    odd: int


@dataclass(frozen=True)
class End:
    """How a journal ends. `n`: of its last record; `linked`, `sum`, `sealed_to`: of its last line of version 2;
    `is_bad`: whole lines that are not records follow the last one; `is_torn`: the last line is incomplete.
    """

    n: int = 0
    linked: int = 0
    sum: str = ""
    sealed_to: int = 0
    is_bad: bool = False
    is_torn: bool = False


def digest(data: bytes) -> str:
    """The digest of a line's bytes, or of what lies between two lines."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def linked(record: Mapping[str, Any], prev: tuple[int, str], over: str) -> tuple[dict[str, Any], bytes]:
    """(the record with its links, its line without the line end). Raises: TypeError for what JSON cannot express."""
    taken = [name for name in _OURS if name in record]
    if taken:
        raise TypeError(f"a field of a record cannot be called {taken[0]!r}")
    whole = {**record, "prev": list(prev), **({"over": over} if over else {})}
    body = json.dumps(whole, separators=(",", ":")).encode("ascii")[:-1]
    own = digest(body)
    return {**whole, "sum": own}, body + _OPEN + own.encode("ascii") + _CLOSE


def parse(raw: bytes) -> dict[str, Any] | None:
    """The record on a line, or None: torn, changed, or not ours."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str) or type(record.get("n")) is not int:
        return None
    if is_old(record):
        return record
    own = record.get("sum")
    tail = raw[-_END_BYTES:]
    if not isinstance(own, str) or tail != _OPEN + own.encode("utf-8", "replace") + _CLOSE:
        return None
    return record if own == digest(raw[:-_END_BYTES]) and _is_link(record.get("prev")) else None


def _is_bad(raw: bytes) -> bool:
    """A line that is neither empty nor the start of a version 2 line. A broken version 2 line is covered by the head,
    or its append never ended and so its effect never began.
    """
    return bool(raw.strip()) and not raw.startswith(_BEGIN) and not _BEGIN.startswith(raw)


def is_old(record: Mapping[str, Any]) -> bool:
    """A line of version 1; only the next line of version 2 vouches for it."""
    return record.get("v") == 1 and "sum" not in record and "prev" not in record


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) is int and isinstance(value[1], str)


@dataclass
class Chain:
    """How far a journal was read and verified, and what was found. `offset`: after the last whole line; `crc`: of all
    bytes before it; `n`: number of the last record; `top`: the highest number.
    """

    offset: int = 0
    crc: int = 0
    n: int = 0
    top: int = 0
    linked: int = 0
    sum: str = ""
    sealed_to: int = 0
    is_bad: bool = False
    gaps: list[Gap] = field(default_factory=list)

    def take(self, data: bytes, read: Callable[[int, int], bytes]) -> list[dict[str, Any]]:
        """Continue over `data`, which starts at `offset`; returns the new records of its whole lines.

        `read`: the bytes of the journal from one offset to another.
        """
        used = data.rfind(b"\n") + 1
        records = []
        for raw in data[:used].split(b"\n")[:-1]:
            record = parse(raw)
            start, self.offset = self.offset, self.offset + len(raw) + 1
            if record is None:
                self.is_bad = self.is_bad or _is_bad(raw)
                continue
            # An old line repeated further down is not applied twice, unless it could not know its place.
            is_new = record["n"] > self.top or record.get("prev", [0, ""])[1] == UNKNOWN
            if is_old(record):
                if record["n"] != self.n + 1:
                    self._gap(record["n"])
            else:
                self._link(record, start, read)
            self.is_bad = False
            self.n, self.top = record["n"], max(self.top, record["n"])
            if is_new:
                records.append(record)
        self.crc = zlib.crc32(data[:used], self.crc)
        return records

    def _link(self, record: Mapping[str, Any], start: int, read: Callable[[int, int], bytes]) -> None:
        between = "" if start == self.sealed_to else digest(read(self.sealed_to, start))
        if record["prev"] != [self.n, self.sum] or record["n"] != self.n + 1:
            self._gap(record["n"])
        elif between != record.get("over", ""):
            self._gap(record["n"], between or "none")
        self.linked, self.sum, self.sealed_to = record["n"], record["sum"], self.offset

    def _gap(self, before: int, mark: str = "") -> None:
        self.gaps.append(Gap(self.n, before, _lost(self.n, before, mark), mark))

    def end(self) -> End:
        """How the part read so far ends."""
        return End(self.n, self.linked, self.sum, self.sealed_to, self.is_bad)

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def chain_from(value: Any) -> Chain | None:
    """The reverse of `as_plain`; None for anything else."""
    if not isinstance(value, dict) or set(value) != {one.name for one in fields(Chain)}:
        return None
    kinds = {one.name: one.type for one in fields(Chain)}
    if any(kind in ("int", "str") and type(value[name]).__name__ != kind for name, kind in kinds.items()):
        return None
    try:
        return Chain(**{**value, "gaps": [Gap(**gap) for gap in value["gaps"]]})
    except TypeError:
        return None


def end_gap(end: End, head: Head | None, is_there: bool, read: Callable[[int, int], bytes]) -> Gap | None:
    """What is wrong at the end of a journal, by its head; None if nothing. `is_there`: the head's file exists."""
    before = next_n(end, head)
    if head is None:
        if is_there or end.linked:
            return Gap(
                end.n,
                before,
                f"the head of the journal is missing, so records may be lost after record {end.n}",
            )
    elif head.n > end.linked or (head.n and head.n == end.linked and head.sum != end.sum):
        return Gap(end.n, before, f"the journal has lost its end: what came after record {end.n}, up to {head.n}")
    elif head.n == 0:
        pass  # a crash between the first line and its head
    elif head.n < end.linked:
        # A crash between an append and its head. The line that the head names must stand at its offset.
        if _OPEN + head.sum.encode("ascii") + _CLOSE != read(max(0, head.size - 1 - _END_BYTES), head.size - 1):
            return Gap(end.n, before, f"the journal does not match its head (record {head.n})")
    if end.is_bad:
        return Gap(end.n, before, f"what the journal has after record {end.n} cannot be read")
    return None


def next_n(end: End, head: Head | None) -> int:
    """The number of the next record: never one used before."""
    return max(end.n, head.n if head else 0) + 1


def last(data: bytes, start: int) -> End:
    """How a journal ends whose bytes from `start` on are `data`; `linked` is 0 if none is of version 2.

    Unless `start` is 0, the first line is treated as partial.
    """
    lines = data.split(b"\n")
    at = start + len(data)
    n = linked = 0
    own, sealed_to, is_bad, is_known = "", 0, False, False
    for number, raw in reversed(list(enumerate(lines))):
        if number == 0 and start:
            break
        record = parse(raw)
        if record is None and not is_known and number < len(lines) - 1 and _is_bad(raw):
            is_bad = True
        if record is not None and not is_known:
            n, is_known = record["n"], True
        if record is not None and not is_old(record):
            linked, own = record["n"], record["sum"]
            sealed_to = at + (number == len(lines) - 1)  # with the line end, even if it is yet to be written
            break
        at -= len(raw) + (number < len(lines) - 1)
    return End(n, linked, own, sealed_to, is_bad, bool(lines[-1]))


def head_bytes(head: Head) -> bytes:
    """The bytes of a head."""
    body = json.dumps(astuple(head), separators=(",", ":")).encode("ascii")
    return (body + b" " + digest(body).encode("ascii")).ljust(HEAD_BYTES - 1) + b"\n"


def head_from(data: bytes) -> Head | None:
    """The head in these bytes; None unless they are exactly one."""
    try:
        n, own, size, stat, odd = json.loads(data[: data.rindex(b"]") + 1])
        head = Head(n, own, size, tuple(stat), odd)
        return head if head_bytes(head) == data else None
    except (ValueError, TypeError):
        return None


def _lost(after: int, before: int, mark: str) -> str:
    if mark:
        return f"what the journal has between record {after} and record {before} was changed"
    if before <= after:
        return f"record {before} of the journal stands where record {after + 1} should"
    if before == after + 1:
        return f"the journal was changed, or has lost something, between record {after} and record {before}"
    if before == after + 2:
        return f"record {after + 1} of the journal is lost or changed"
    return f"records {after + 1} to {before - 1} of the journal are lost or changed"
