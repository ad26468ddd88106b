"""`status`: one bounded look, one row a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sojourn.core.values import build_frozen
from sojourn.core.verdict import exit_status, worst
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Row, StatusReport
from sojourn.verbs.context import Context
from sojourn.verbs.observe.reasons import line_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.observe.spending import spent_micro, taken_s
from sojourn.verbs.observe.view import RunView, meter_of, next_step
from sojourn.wire import units


def status(
    ctx: Context, names: Sequence[str] = (), *, timeout_s: float = 20.0, finals: int | None = None
) -> StatusReport:
    """Rows of the runs named (unique prefixes; all where none is named), in the order they were planned.

    `finals`: where none is named, of those that are over and sealed only so many are in the answer, the newest; the
    others are a number (`hidden`), sweeps are not counted up then, and the exit status is that of the rows.
    Each site is asked once, for `timeout_s` at most; runs whose end is known are not asked about.
    Raises: Misuse (not-found, ambiguous).
    """
    if names or finals is None:
        return look(ctx, chosen(ctx, names), timeout_s=timeout_s)
    records, hidden = ctx.store.index.recent(finals)
    views = refresh(ctx, records, timeout_s=timeout_s, also_settled=True)
    shown = {record.id: views.pop(record.id) for record in records} | views
    return replace(of_views(ctx, list(shown.values()), whole=False), hidden=hidden + len(records) - len(shown))


def chosen(ctx: Context, names: Sequence[str]) -> list[RunRecord]:
    """The runs named, each once, and of a sweep its cells; all of them where none is named.

    Raises: Misuse (not-found, ambiguous).
    """
    if not names:
        return ctx.store.index.runs()
    found = {record.id: record for name in names for record in ctx.store.index.named(name)}
    return list(found.values())


def look(ctx: Context, records: Sequence[RunRecord], *, timeout_s: float = 20.0) -> StatusReport:
    """`status` of these records."""
    views = refresh(ctx, records, timeout_s=timeout_s)
    return of_views(ctx, [views[record.id] for record in records])


def of_views(
    ctx: Context, views: Sequence[RunView], *, whole: bool = True, taken: Mapping[str, float] | None = None
) -> StatusReport:
    """`status` of runs as they were heard. Asks nobody. `whole`: every cell of their sweeps is among them. `taken`: of
    `taken_s`, where it is known already.
    """
    leases = {record.name: record for record in ctx.store.index.leases(open_only=False)}
    taken = taken_s(ctx, views, leases) if taken is None else taken
    now_s = ctx.now_s()
    rows = tuple(_with_risk(ctx, view, row(view, leases, taken, now_s), now_s) for view in views)
    codes = [
        exit_status(r.state, is_home=r.is_home, is_reachable=r.reach.ok is not False, is_sick=r.reach.is_sick)
        for r in rows
    ]
    sweeps: tuple[Mapping[str, Any], ...] = ()
    if whole and any(row.sweep for row in rows):
        from sojourn.verbs.observe.tally import tally

        sweeps = tally([view for view in views if view.record.sweep], rows)
    return StatusReport(rows, units.stamp(now_s), worst(codes), sweeps)


def _with_risk(ctx: Context, view: RunView, shown: Row, now_s: float) -> Row:
    """With what would be lost if the box vanished now."""
    status = view.status
    if not status.state.is_alive or not status.started_at:
        return shown
    from sojourn.verbs.kept_here import kept_here

    kept = kept_here(ctx, view.record.id)
    since_s = units.unstamp(str(kept["at"]) if kept else status.started_at)
    steps = None if status.step is None else max(0, status.step - int(kept.get("step") or 0))
    if kept and kept.get("step") is None:
        steps = None
    risk = {"seconds": round(max(0.0, now_s - since_s), 1), "steps": steps, "checkpoint": kept.get("checkpoint")}
    return replace(shown, at_risk=risk)


def row(view: RunView, leases: Mapping[str, LeaseRecord], taken: Mapping[str, float], now_s: float = 0.0) -> Row:
    """One run as `status` shows it. `taken`: what each takes of its lease, of `taken_s`."""
    record, status = view.record, view.status
    lease = leases.get(record.lease)
    meter = meter_of(record, lease)
    return build_frozen(
        Row,
        {
            "id": record.id,
            "site": record.site_name,
            "state": status.state,
            "attempt": max(status.attempt, record.attempt),
            "since": status.since or units.stamp(record.planned_s),
            "reach": view.reach,
            "meter": meter,
            "step": status.step,
            "total": status.total,
            "epoch": status.epoch,
            "unit": status.unit,
            "percentage": status.percentage,
            "remaining_s": status.remaining_s,
            "metrics": status.metrics,
            "log_age_s": _log_age_s(view, now_s),
            "reason": line_of(status),
            "cause": status.cause_id if status.state.is_dead else "",
            "owed": record.owed,
            "home": record.home,
            "missing": status.missing,
            "unnamed": tuple(path for path in status.unnamed if path not in record.also),
            "is_home": record.is_home,
            "spent_micro": spent_micro(view, lease, taken),
            "currency": lease.lease.currency if lease else "USD",
            "lease": record.lease,
            "next": next_step(view, lease),
            "sweep": record.sweep,
            "at_risk": {},
            "budget_pct": status.budget_pct,
        },
    )


def _log_age_s(view: RunView, now_s: float) -> float | None:
    """Of a run that lives: it grows also while nobody can ask."""
    status, heard_s = view.status, view.record.heard_s
    if not status.state.is_alive or status.log_age_s is None:
        return None
    unheard_s = max(0.0, now_s - heard_s) if view.reach.ok is False and heard_s is not None else 0.0
    return round(status.log_age_s + unheard_s, 1)
