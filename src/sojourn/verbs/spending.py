"""What each run takes of its lease: cells that run side by side on one box share its meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.core import money
from sojourn.core.fold import Status
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Context
from sojourn.verbs.hear import View
from sojourn.wire import units


def taken_s(ctx: Context, views: Sequence[View], leases: Mapping[str, LeaseRecord]) -> dict[str, float]:
    """Seconds of its lease's meter that each of these runs takes, by the box's own clock; free boxes are left out.

    All runs of a lease count, heard now or not. They add up to no more than the time during which any of them ran.
    """
    metered = dict.fromkeys(view.record.lease for view in views)
    out: dict[str, float] = {}
    for name in metered:
        lease = leases.get(name)
        if lease is None or not lease.lease.rate_micro_per_h:
            continue
        every = {record.id: record.status for record in ctx.store.index.runs_on(name)}
        heard = {view.record.id: view.status for view in views if view.record.lease == name}
        asked = {view.record.id for view in views}
        out.update((run, second) for run, second in _shared(every | heard).items() if run in asked)
    return out


def spent_micro(view: View, lease: LeaseRecord | None, taken: Mapping[str, float]) -> int | None:
    """What this run cost at its lease's rate; None while nothing was heard of it. `taken`: of `taken_s`."""
    record, status = view.record, view.status
    rate = lease.lease.rate_micro_per_h if lease else record.site.rate_micro_per_h
    if not rate or record.attempt == 0:
        return 0
    if not status.seq:
        return None
    own_s = sum(ended - began for began, ended in _spans(status)) + _older_s(status)
    return money.spent_micro(rate, 0.0, taken.get(record.id, own_s))


def _shared(every: Mapping[str, Status]) -> dict[str, float]:
    taken = money.shared_s({run: _spans(status) for run, status in every.items()})
    return {run: second + _older_s(every[run]) for run, second in taken.items()}


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


def _older_s(status: Status) -> float:
    """Of attempts whose time of day is not kept any more: they count as if they had run alone."""
    return max(0.0, status.spent_s - sum(_seconds(status, end) for end in status.ends))


def _seconds(status: Status, end: Mapping[str, object]) -> float:
    said = end.get("seconds")
    if isinstance(said, (int, float)):
        return float(said)
    return status.spent_s if len(status.ends) == 1 else 0.0  # folded by a version that did not keep it
