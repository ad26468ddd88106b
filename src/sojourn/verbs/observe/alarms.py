"""The alarms of runs and their leases, from what is known now: stalled, ended too fast, done but billing, idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sojourn.core.alarms import ANEW, BILLING, IDLE, IDLE_S, SIBLINGS, STALLED, TOO_FAST, Alarm, is_fast, is_short
from sojourn.core.values import Meter, State
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.context import Context
from sojourn.wire.units import say_money, say_seconds, unstamp

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
        return [*found, *self._of_leases(names)]

    def _judge(self, ended: Sequence[RunRecord]) -> None:
        for record in ended[:MOST]:
            status = record.status
            why = ""
            if is_short(status.step, status.total):
                why = f"it succeeded at step {status.step} of {status.total}"
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
        rate = "an unknown rate"
        if row.rate_micro_per_h is not None:
            rate = f"{say_money(row.rate_micro_per_h, row.currency)} an hour"
        if row.runs:
            away = [name for name in row.runs if (run := self._ctx.store.index.run(name)) and not run.is_home]
            what = f"all its runs have ended, but it still costs {rate}{so_far}"
            yield Alarm(BILLING, row.id, what, f"sojourn pull {away[0]}" if away else f"sojourn down {row.id}")
        elif self._ctx.now_s() - unstamp(row.began) >= IDLE_S:
            yield Alarm(IDLE, row.id, f"no run ever started on it, but it costs {rate}", f"sojourn down {row.id}")


def _of_run(record: RunRecord) -> Iterator[Alarm]:
    status = record.status
    if status.state is State.STALLED:
        yield Alarm(STALLED, record.id, f"stalled: {status.reason or 'nothing moves'}", f"sojourn why {record.id}")
    if status.state is State.RUNNING and status.began_anew:
        yield Alarm(ANEW, record.id, status.reason or "it began at step 0 again", f"sojourn why {record.id}")
    if status.state is State.RUNNING and status.idle_since and status.beat_at:
        idle_s = unstamp(status.beat_at) - unstamp(status.idle_since)
        if idle_s >= IDLE_S:
            text = f"no GPU of its box has been busy for {say_seconds(idle_s)}"
            yield Alarm(IDLE, record.id, text, f"sojourn why {record.id}")
