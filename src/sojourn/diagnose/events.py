"""The log of a run as events in order: what matched, where, when, of which rank and kind, and what came after it.

Conditions speak of events (`log.ended_by`, `log.warned`, `log.recovered`, `log.first_of`, `log.rank`), and of what the
log states beside them (`log.said`), never of the text as a whole: a text that the run got over is of no end, one in a
warning ends nothing by itself, and one in a help page, a printed configuration or an echoed command is no event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sojourn.diagnose import linekind
from sojourn.diagnose.case import Case
from sojourn.diagnose.facts import words
from sojourn.diagnose.grammar import Known
from sojourn.diagnose.lines import bare
from sojourn.diagnose.scan import Hit, LogSeen

_CLOCK = re.compile(r"(?:\d{4}-\d\d-(\d\d)[T ])?(\d\d):(\d\d):(\d\d)")
FAMILY = "log."  # of the observations made here
PARTS = ("ended_by", "warned", "recovered", "said")


@dataclass(frozen=True)
class Event:
    """One matched text, all its lines of one rank together.

    `line`: number of the first, from 1; `last`: of the last; `times`: how many; `at`: the time written before the
    first, "" without; `kind`: notice, warning, error, terminal; `after`: progress lines after the last of them, as far
    as the end of the log shows; `is_recovered`: the run went on after it.
    """

    gotcha: str
    text: str
    line: int
    last: int
    times: int
    at: str
    stream: str
    rank: int | None
    kind: str
    after: int
    is_recovered: bool


def events_of(case: Case) -> tuple[Event, ...]:
    """Every event, in the order of the streams and of their lines."""
    return tuple(_event(case, stream, seen, hit) for stream, seen in case.seen.items() for hit in seen.hits)


def _event(case: Case, stream: str, seen: LogSeen, hit: Hit) -> Event:
    has_last_word = stream == "log" and seen.end.kind == "error" and hit.last >= seen.end.bad
    kind = linekind.TERMINAL if hit.kind == linekind.ERROR and has_last_word else hit.kind
    after = seen.end.progress_after(hit.last)
    is_past = case.is_past(stream, hit)
    return Event(hit.gotcha, hit.line, hit.number, hit.last, hit.times, hit.at, stream, hit.rank, kind, after, is_past)


# What a DataLoader says in its own process of an error in a worker, whose traceback follows.
_PASSED_ON = re.compile(r"\w+: Caught \w+ in (?:DataLoader worker|pin memory thread|replica \d)")


def with_events(case: Case) -> Case:
    """The case with what its log tells by its events. Without a log nothing of it is known, which is not "nothing"."""
    log = case.log
    if log is None or (not log.size_bytes and "run.log_text" not in case.facts.known):
        return case
    texts = _parted(case, log)
    told: dict[str, Any] = {
        **{f"{FAMILY}{name}": text for name, text in texts.items()},
        **_first(case, log),
        **words.of_end(texts["ended_by"]),
        **words.of_notices(texts["said"]),
        **_last_lines(log),
    }
    known = dict(case.facts.known)
    for what, value in told.items():
        if what not in known:
            known[what] = Known(value, "the log")
    return replace(case, facts=replace(case.facts, known=known))


def last_error(case: Case) -> str:
    """The log's own error: the first traceback that the run did not get over, else what its last line names; "" for
    none."""
    log = case.log
    if log is None:
        return ""
    own = [one.said for one in log.raised if one.said and not case.is_over(one.said, one.number, one.number)]
    return next((said for said in own if not _PASSED_ON.match(said)), own[0] if own else log.end.raised)


def _first(case: Case, log: LogSeen) -> dict[str, Any]:
    """The first error that the run did not get over, and its rank."""
    begins = {one.number for one in log.raised}  # told by the exception that they name
    found: list[tuple[int, int | None, str]] = [
        (hit.number, hit.rank, hit.line)
        for hit in log.hits
        if hit.kind in (linekind.ERROR, linekind.TERMINAL) and hit.number not in begins and not case.is_past("log", hit)
    ]
    own = [one for one in log.raised if not case.is_over(one.said, one.number, one.number)]
    found += [(one.number, one.rank, one.said) for one in own]
    first = min(found, key=lambda one: one[0], default=None)
    told: dict[str, Any] = {f"{FAMILY}first_of": first[2] if first else None, f"{FAMILY}rank": first and first[1]}
    ranks = [one.rank for one in own if one.rank is not None]
    return {**told, "mn.first_rank": ranks[0]} if ranks else told


def _parted(case: Case, log: LogSeen) -> dict[str, str]:
    """The log's lines, but for those that are mere words, by what came after them: each of `PARTS` as one text."""
    progress = set(log.end.progress)
    parts: dict[str, list[str]] = {name: [] for name in PARTS}
    for number, line in _rows(log):
        own = bare(line)[1]
        if linekind.is_no_event(own):
            continue
        texts = [line] if own == line else [line, own]
        parts["said"] += texts
        if number in progress:
            continue
        is_over = case.is_over(own, number, number)
        parts["recovered" if is_over else "warned" if linekind.warns(own) else "ended_by"] += texts
    return {name: "\n".join(lines) for name, lines in parts.items()}


def _last_lines(log: LogSeen) -> dict[str, Any]:
    """When each rank wrote last, where lines carry their time and their rank, and how far the ranks are apart."""
    last: dict[str, float] = {}
    for line in log.tail.split("\n"):
        rank = bare(line)[0]
        clock = _CLOCK.search(line[:60]) if rank is not None else None
        if clock:
            day, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            last[str(rank)] = float(((day * 24 + hours) * 60 + minutes) * 60 + seconds)
    if len(last) < 2:
        return {}
    return {"mn.last_line": last, "mn.last_line_spread_s": max(last.values()) - min(last.values())}


def _rows(log: LogSeen) -> Iterator[tuple[int, str]]:
    """(number, line): lines in which a pattern was found before the end of the log, and all of its end."""
    tail = log.tail.split("\n")
    first = log.lines - len(tail) + 1
    for number, _, text in log.notable:
        if number <= first:
            yield number, text
    for number, line in enumerate(tail, start=first + 1):
        if line.strip():
            yield number, line
