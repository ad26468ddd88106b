"""`leases`: what is metered now, what it has cost, and the clocks that run against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from sojourn.core import money
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import LeaseRow, Leases
from sojourn.verbs.context import Context
from sojourn.wire import units


def leases(ctx: Context) -> Leases:
    """Every lease not let go, oldest first. Asks nobody: the cost follows from its rate and this machine's clock."""
    rows = tuple(lease_row(ctx, record) for record in ctx.store.index.leases())
    return Leases("leases", rows, totals(rows), at=units.stamp(ctx.now_s()), unpriced=unpriced(rows))


def spent_micro(ctx: Context, record: LeaseRecord) -> int | None:
    """What the lease has cost until now, or cost until it was let go; None where its rate is not known."""
    lease = record.lease
    if not lease.is_rate_known:
        return None
    if record.spent_micro is not None:
        return record.spent_micro
    return money.spent_micro(lease.rate_micro_per_h, lease.began_s, record.ended_s or ctx.now_s())


def lease_row(ctx: Context, record: LeaseRecord) -> LeaseRow:
    """One lease with its meter."""
    lease = record.lease
    runs = ctx.store.index.runs_on(record.name) if record.is_open else []
    return LeaseRow(
        id=record.name,
        site=lease.site,
        platform=runs[-1].site.platform if runs else "",
        provider=lease.provider,
        rate_micro_per_h=lease.rate_micro_per_h if lease.is_rate_known else None,
        currency=lease.currency,
        began=units.stamp(lease.began_s),
        meter=record.meter,
        spent_micro=spent_micro(ctx, record),
        idle_s=_idle_s(ctx, runs),
        clocks=tuple(asdict(clock) for clock in lease.clocks),
        stop_verb=lease.stop_verb,
        is_final=lease.is_final,
        runs=tuple(run.id for run in runs),
        ended="" if record.ended_s is None else units.stamp(record.ended_s),
    )


def totals(rows: Iterable[LeaseRow]) -> tuple[tuple[int, str], ...]:
    """(micro-units, currency) of all rows whose cost is known, one amount a currency; currencies are never added up."""
    sums: dict[str, int] = {}
    for row in rows:
        if row.spent_micro is not None:
            sums[row.currency] = sums.get(row.currency, 0) + row.spent_micro
    return tuple((sums[currency], currency) for currency in sorted(sums))


def unpriced(rows: Iterable[LeaseRow]) -> tuple[str, ...]:
    """The leases whose cost is not known, so that no total holds them."""
    return tuple(dict.fromkeys(row.id for row in rows if row.spent_micro is None))


def _idle_s(ctx: Context, runs: list[RunRecord]) -> float | None:
    """Since when nothing runs, by what this machine heard last; None while something runs or may run."""
    if not runs or any(not run.status.state.is_final or run.heard_s is None for run in runs):
        return None
    return max(0.0, ctx.now_s() - max(run.heard_s or 0.0 for run in runs))
