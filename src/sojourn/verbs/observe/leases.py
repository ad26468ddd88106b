"""`leases`: what is metered now, what it has cost, and the clocks that run against it."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.core import money
from sojourn.core.inventory import HOURS_PER_MONTH
from sojourn.core.need import GIB
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import LeaseRow, Leases
from sojourn.verbs.context import Context
from sojourn.verbs.observe.balances import balances
from sojourn.verbs.observe.clocks import counted
from sojourn.verbs.observe.unrecorded import machines_without_a_lease
from sojourn.wire import units


def leases(ctx: Context) -> Leases:
    """Every lease not let go, oldest first. The cost follows from its rate and this machine's clock; providers are
    asked what is left on their accounts, and whether they have a machine of ours that no lease is of.
    """
    records = ctx.store.index.leases()
    rows = tuple(lease_row(ctx, record) for record in records)
    left = balances(ctx, records, {row.id: row for row in rows})
    strange, asked, unasked = machines_without_a_lease(ctx)
    return Leases(
        "leases",
        rows,
        totals(rows),
        at=units.stamp(ctx.now_s()),
        unpriced=unpriced(rows),
        balances=left,
        unrecorded=strange,
        asked=asked,
        unasked=unasked,
    )


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
    lease, now_s = record.lease, ctx.now_s()
    runs = ctx.store.index.runs_on(record.name) if record.is_open else []
    idle_s = _idle_s(ctx, runs)
    disk_rate = _disk_rate(record)
    until_s = record.ended_s or now_s
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
        idle_s=idle_s,
        clocks=counted(lease, now_s, idle_s=idle_s, stopped_s=record.ended_s if record.was_kept else None),
        stop_verb=lease.stop_verb,
        is_final=lease.is_final,
        runs=tuple(run.id for run in runs),
        ended="" if record.ended_s is None else units.stamp(record.ended_s),
        idle_spent_micro=_idle_micro(record, idle_s),
        disk_rate_micro_per_h=disk_rate,
        disk_micro=None if disk_rate is None else money.spent_micro(disk_rate, lease.began_s, until_s),
        traffic_micro=_traffic_micro(record, runs),
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
    """For how long nothing has run; None while something runs or may run. A box says itself how old an end is, so it
    counts from there also where this client was away.
    """
    if not runs or any(not run.status.state.is_final or run.heard_s is None for run in runs):
        return None
    ended_s = max((run.heard_s or 0.0) - run.status.unheard_s for run in runs)
    return max(0.0, ctx.now_s() - ended_s)


def _idle_micro(record: LeaseRecord, idle_s: float | None) -> int | None:
    lease = record.lease
    if idle_s is None or not lease.is_rate_known:
        return None
    return money.spent_micro(lease.rate_micro_per_h, 0.0, idle_s)


def _disk_rate(record: LeaseRecord) -> int | None:
    """An hour of its disk, where that is billed beside its rate."""
    size_gib, price = (record.lease.facts.get(name) for name in ("disk_gib", "disk_micro_per_gib_month"))
    if not isinstance(size_gib, (int, float)) or not isinstance(price, int):
        return None
    return round(size_gib * price / HOURS_PER_MONTH)


def _traffic_micro(record: LeaseRecord, runs: list[RunRecord]) -> int | None:
    """What came home from it, at its provider's price of traffic out; what was pulled twice counts once."""
    price = record.lease.facts.get("egress_micro_per_gib")
    if not isinstance(price, int) or not record.is_open:
        return None
    held = sum(receipt.bytes for run in runs for receipt in run.receipts)
    return -(-held * price // GIB)
