"""The alarms of runs and their leases, from what is known now: stalled, ended too fast, done but billing, idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sojourn.core.alarms import (
    ANEW,
    BILLING,
    BUDGET,
    CLOCK,
    IDLE,
    IDLE_S,
    SIBLINGS,
    STALLED,
    TOO_FAST,
    Alarm,
    is_fast,
    is_short,
)
from sojourn.core.values import Meter, State
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.context import Context
from sojourn.wire.units import say_money, say_seconds, unstamp

LAST_PCT = 100
CLOCK_MARKS_H = (24.0, 6.0, 1.0, 0.25)  # hours left of a danger clock at which a person is told of it (again)
MOST = 100  # runs that ended since the last look are held against their siblings, so many a look


class Alarms:
    """Of one watch: which alarms hold now. Asks nobody."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._fast: dict[str, Alarm | None] = {}  # by run that has succeeded; None: it took its time

    def now(self, records: Sequence[RunRecord]) -> list[Alarm]:
        """All that hold, in the order of the runs, then of their leases."""
        found = [alarm for record in records for alarm in _of_run(record)]
        self._judge([r for r in records if r.status.state is State.SUCCEEDED and r.id not in self._fast])
        found += [alarm for record in records if (alarm := self._fast.get(record.id)) is not None]
        names = {record.lease for record in records if record.lease}
        return [*found, *self._of_leases(names), *map(_of_clock, self.clocks(records, CLOCK_MARKS_H[0] * 3600))]

    def clocks(self, records: Sequence[RunRecord], within_s: float = float("inf")) -> list[Mapping[str, Any]]:
        """The danger clocks that run against the leases of these runs, soonest first, each with its `lease`."""
        from sojourn.verbs.observe.leases import lease_row

        names = {record.lease for record in records if record.lease}
        rows = [lease_row(self._ctx, one) for one in self._ctx.store.index.leases() if one.name in names]
        found = [{"lease": row.id, **clock} for row in rows for clock in row.clocks if clock["left_s"] is not None]
        return sorted((one for one in found if 0 <= one["left_s"] <= within_s), key=lambda one: float(one["left_s"]))

    def _judge(self, ended: Sequence[RunRecord]) -> None:
        for record in ended[:MOST]:
            status = record.status
            why = ""
            if is_short(status.step, status.total):
                why = f"it succeeded at {status.unit or 'step'} {status.step} of {status.total}"
            elif record.sweep:
                expected_s, siblings = self._expected_s(record)
                if is_fast(status.spent_s, expected_s, siblings):
                    took = say_seconds(status.spent_s)
                    why = f"it succeeded after {took}, where its finished siblings take {say_seconds(expected_s)}"
            following = f"sojourn logs {record.id} --tail 50"
            self._fast[record.id] = (
                Alarm(TOO_FAST, record.id, f"{why}: check the result before you trust it", following) if why else None
            )

    def _expected_s(self, record: RunRecord) -> tuple[float, int]:
        """(what its siblings let expect of it on its box, how many of them are finished)."""
        from sojourn.verbs.observe.costs import costs_of, wanted_of

        cells = self._ctx.store.index.cells(record.sweep)
        done = [r for r in cells if r.id != record.id and r.status.state is State.SUCCEEDED and r.status.spent_s > 0]
        if len(done) < SIBLINGS:
            return 0.0, len(done)
        costs, fast = costs_of(done, {record.id: wanted_of(record)})
        return costs[record.id] / fast.get(record.site_name, 1.0), len(done)

    def _of_leases(self, names: set[str]) -> Iterator[Alarm]:
        for lease in self._ctx.store.index.leases():
            if lease.name in names and lease.has_stop and lease.state != "releasing" and lease.meter is not Meter.FREE:
                yield from self._of_lease(lease)

    def _of_lease(self, record: LeaseRecord) -> Iterator[Alarm]:
        from sojourn.verbs.observe.leases import lease_row

        row = lease_row(self._ctx, record)
        if row.idle_s is None and row.runs:
            return
        so_far = f", {say_money(row.spent_micro, row.currency)} so far" if row.spent_micro is not None else ""
        rate = "at an unknown rate"
        if row.rate_micro_per_h is not None:
            rate = f"at {say_money(row.rate_micro_per_h, row.currency)} an hour"
        if row.runs:
            away = [name for name in row.runs if (run := self._ctx.store.index.run(name)) and not run.is_home]
            idle = "" if row.idle_spent_micro is None else f": {say_money(row.idle_spent_micro, row.currency)}"
            since = say_seconds(row.idle_s or 0.0)
            what = f"all its runs have ended; done and billing since {since}{idle} ({rate}{so_far})"
            yield Alarm(BILLING, row.id, what, f"sojourn pull {away[0]}" if away else f"sojourn down {row.id}")
        elif self._ctx.now_s() - unstamp(row.began) >= IDLE_S:
            yield Alarm(IDLE, row.id, f"no run ever started on it, but it bills {rate}", f"sojourn down {row.id}")


def _of_run(record: RunRecord) -> Iterator[Alarm]:
    status = record.status
    if status.state is State.STALLED:
        yield Alarm(STALLED, record.id, f"stalled: {status.reason or 'nothing moves'}", f"sojourn why {record.id}")
    if status.budget_pct and (status.state.is_alive or status.ends and status.ends[-1].get("why") == "budget"):
        yield _of_budget(record)
    if status.state is State.RUNNING and status.began_anew:
        yield Alarm(ANEW, record.id, status.reason or "it started over at step 0", f"sojourn why {record.id}")
    if status.state is State.RUNNING and status.idle_since and status.beat_at:
        idle_s = unstamp(status.beat_at) - unstamp(status.idle_since)
        if idle_s >= IDLE_S:
            text = f"no GPU of its box has been busy for {say_seconds(idle_s)}"
            yield Alarm(IDLE, record.id, text, f"sojourn why {record.id}")


def _of_clock(clock: Mapping[str, Any]) -> Alarm:
    """A danger clock that strikes soon: told again at each of its marks."""
    left_s = float(clock["left_s"])
    mark_h = min(mark for mark in CLOCK_MARKS_H if left_s <= mark * 3600)
    what = f"{clock['what']}: in {say_seconds(left_s)} it loses {clock['loses']}"
    return Alarm(f"{CLOCK}-{mark_h:g}h", str(clock["lease"]), what, "sojourn pull")


def _of_budget(record: RunRecord) -> Alarm:
    """The mark of its budget that its keeper told last; the last one stops the process, and never the lease."""
    pct, budget = record.status.budget_pct, record.local.get("budget")
    of = f" ({say_money(int(budget[0]), str(budget[1]))})" if budget else ""
    if pct < LAST_PCT:
        what = f"{pct} % of its budget{of} is spent; at {LAST_PCT} % its process is stopped"
        return Alarm(f"{BUDGET}-{pct}", record.id, what, f"sojourn status {record.id}")
    what = f"its budget{of} is spent: its process is stopped, and the machine still bills"
    following = f"sojourn down {record.lease}" if record.is_home and record.lease else f"sojourn pull {record.id}"
    return Alarm(f"{BUDGET}-{pct}", record.id, what, following)
