"""Why a run ended badly, in one line: judged from its end and its log's last words, as they came with its events.

No connection, and no more than a few milliseconds, once a run. `sojourn why RUN` looks closer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sojourn.core.fold import Status
from sojourn.core.values import Site, State

LINE = 160  # characters


def scope_of(site: Site) -> list[str]:
    """What kind of place it is, for gotchas that hold in some only; texts of schedulers may stand in any log."""
    from sojourn.diagnose.case import LOG_SCOPE

    return sorted({*LOG_SCOPE, site.transport, site.launcher, site.platform})


def with_cause(status: Status, events: Iterable[Mapping[str, Any]], site: Site) -> Status:
    """`status` with the cause of its end, where its last words are among `events`."""
    if not status.state.is_dead:
        return status
    rows = list(events)
    for event in rows:  # the user's own cause, which stands before what we make of it
        if event.get("kind") == "ruled" and event.get("attempt") == status.attempt and event.get("rule"):
            rule, action = event["rule"], event.get("action")
            return replace(status, cause=_line(f"your rule {rule} ({action}): {event.get('line', '')}"))
    for event in rows:
        if event.get("kind") == "said" and event.get("attempt") == status.attempt:
            cause, known = judged(status, str(event.get("text", "")), scope_of(site), event.get("room"))
            return replace(status, cause=cause, cause_id=known)
    return status


def cause_of(status: Status, said: str, scope: Iterable[str]) -> str:
    """The cause in one line, "" if unknown. `said`: the log's last lines."""
    return judged(status, said, scope)[0]


def judged(status: Status, said: str, scope: Iterable[str], room: Any = None) -> tuple[str, str]:
    """(the cause in one line, the id of the gotcha that it is); "" for what cannot be said. `said`: its last words;
    `room`: on its disk at the end, as the event has it."""
    from sojourn.diagnose import evidence
    from sojourn.diagnose.events import last_error
    from sojourn.diagnose.facts import keeper
    from sojourn.diagnose.reason import reason
    from sojourn.store.gotchas import gotchas

    end = status.ends[-1] if status.ends else {}
    document = {
        "scope": list(scope),
        "probes": {"log": {"stdout": said}} if said else {},
        "facts": {**_used(room), **keeper.of_end({**end, "state": status.state.value, "seat": status.seat})},
    }
    case = evidence.from_document(document, gotchas())
    best = reason(gotchas(), case).verdict
    own = last_error(case)
    if best is None or best.id in _SAYS_NO_MORE or (best.id == _KILLED and best.status != "confirmed"):
        return _line(own), ""
    words = best.title if best.status == "confirmed" else f"probably: {best.title}"
    return _line(f"{words} ({own})" if own and len(words) + len(own) + 3 <= LINE else words), best.id


def _used(room: Any) -> dict[str, float]:
    """How full a disk is."""
    shares = {}
    for name, key in (("disk.bytes_pct", "bytes"), ("disk.inodes_pct", "inodes")):
        free, total = (room.get(f"{part}_{key}") for part in ("free", "total")) if isinstance(room, dict) else (0, 0)
        if isinstance(free, int) and isinstance(total, int) and total > 0:
            shares[name] = round(1 - free / total, 4)
    return shares


# What the end's own line says already: the status, the signal, that it is gone.
_SAYS_NO_MORE = frozenset(("program-error", "process-vanished", "ended-by-term", "ended-by-int"))
_KILLED = "killed-unknown"  # proven, it says more: not for memory


def line_of(status: Status) -> str:
    """What to show as the reason: how it ended, and why."""
    if not status.cause or not status.state.is_dead:
        return status.reason
    if status.state is State.OOM and status.reason and status.judged == status.attempt:
        return status.reason  # a scheduler's word, which says how much to ask for
    if status.state is State.OOM or not status.reason:
        return status.cause
    return f"{status.reason}: {status.cause}"


def alike(what: str, cause_id: str, line: str) -> tuple[str, str, str]:
    """The same for runs that ended of one cause: the known one, else the same words but for numbers in them."""
    return what, cause_id, "" if cause_id else _NUMBERS.sub("#", line)


# An exit status or a signal is no mere number; a step, an address, a size in somebody's message is.
_NUMBERS = re.compile(r"(?<!status )(?<!signal )(?:0x[0-9a-fA-F]+|\b\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


def _line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LINE else plain[: LINE - 4].rstrip() + " ..."
