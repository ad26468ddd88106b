"""What each run takes of its lease: cells that run side by side on one box share its meter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sojourn.core import money
from sojourn.core.fold import Status
from sojourn.store.program import read_code
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Context
from sojourn.verbs.observe.view import RunView
from sojourn.wire import units

# When a run's process ran, each attempt, and the seconds of older attempts of which no time of day is kept.
Ran = tuple[Sequence[tuple[float, float]], float]


def taken_s(ctx: Context, views: Sequence[RunView], leases: Mapping[str, LeaseRecord]) -> dict[str, float]:
    """Seconds of its lease's meter that each of these runs takes, by the box's own clock; free boxes are left out.

    All runs of a lease count, heard now or not. They add up to no more than the time during which any of them ran.
    """
    out: dict[str, float] = {}
    for name in dict.fromkeys(view.record.lease for view in views):
        if is_metered(leases.get(name)):
            ours = {view.record.id: ran(view.status) for view in views if view.record.lease == name}
            out.update(taken_of(ctx, name, ours))
    return out


def taken_of(ctx: Context, lease: str, ours: dict[str, Ran]) -> dict[str, float]:
    """`taken_s` of the runs `ours` of one lease, of which is known when they ran."""
    index = ctx.store.index
    others = {run: text for run, text in index.times_on(lease, read_code()).items() if run not in ours}
    every: dict[str, Ran] = {run: json.loads(text) for run, text in others.items() if text is not None}
    every.update(
        (record.id, ran(record.status)) for record in index.some([run for run in others if others[run] is None])
    )
    seconds = shared_s(every | ours)
    return {run: seconds[run] for run in ours}


def is_metered(lease: LeaseRecord | None) -> bool:
    """The runs on this lease share a meter."""
    return lease is not None and bool(lease.lease.rate_micro_per_h)


def ran(status: Status) -> Ran:
    """When the process of a run ran, by what is known of it."""
    known_s = sum(_seconds(status, end) for end in status.ends)
    return _spans(status), max(0.0, status.spent_s - known_s)


def shared_s(every: Mapping[str, Ran]) -> dict[str, float]:
    """What each of all the runs of one lease takes of its meter. Older attempts count as if they had run alone."""
    taken = money.shared_s({run: spans for run, (spans, _) in every.items()})
    return {run: second + every[run][1] for run, second in taken.items()}


def spent_micro(view: RunView, lease: LeaseRecord | None, taken: Mapping[str, float]) -> int | None:
    """What this run has cost at its lease's rate; None if nothing is known of it yet, or the rate is unknown.
    `taken`: of `taken_s`.
    """
    record, status = view.record, view.status
    if lease and not lease.lease.is_rate_known and record.attempt:
        return None
    rate = lease.lease.rate_micro_per_h if lease else record.site.rate_micro_per_h
    if not rate or record.attempt == 0:
        return 0
    if not status.seq:
        return None
    spans, older_s = ran(status)
    own_s = sum(ended - began for began, ended in spans) + older_s
    return money.spent_micro(rate, 0.0, taken.get(record.id, own_s))


def _spans(status: Status) -> list[tuple[float, float]]:
    """When its process ran, each attempt: from the ends that are kept, and the one that lives."""
    spans = []
    for end in status.ends:
        seconds = _seconds(status, end)
        if seconds and end.get("at"):
            at_s = units.unstamp(str(end["at"]))
            spans.append((at_s - seconds, at_s))
    if status.state.is_alive and status.started_at and status.beat_at >= status.started_at:
        spans.append((units.unstamp(status.started_at), units.unstamp(status.beat_at)))
    return spans


def _seconds(status: Status, end: Mapping[str, object]) -> float:
    said = end.get("seconds")
    if isinstance(said, (int, float)):
        return float(said)
    return status.spent_s if len(status.ends) == 1 else 0.0  # folded by a version that did not keep it
