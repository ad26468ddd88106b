"""`watch`: hears runs until all are final, ever more rarely while nothing moves, and says when nothing is new.

Each box is asked on its own clock (`poll.py`). Alarms and failures go to the channels of settings and job files.
Of a run that another watch of this machine asks about, that one sends the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sojourn.core.alarms import Alarm
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Row, Snapshot, StatusReport
from sojourn.verbs.context import Context
from sojourn.verbs.observe.alarms import Alarms
from sojourn.verbs.observe.notices import Notices, channels
from sojourn.verbs.observe.poll import Poll, is_over
from sojourn.verbs.observe.status import chosen, of_views
from sojourn.wire.units import say_seconds

GIVE_UP_S = 3600.0  # nothing answered for so long
STEP_PCT = 10.0  # progress is news each time it passes another of these


def watch(
    ctx: Context, names: Sequence[str] = (), *, every_s: float = 2.0, limit_s: float | None = None
) -> Iterator[Snapshot]:
    """Looks at the runs named, or at all that are not final (at the newest where there is none).

    Ends when all are final, after `limit_s`, or when no site has answered for an hour; the last look says `is_last`.
    A look comes when something is new, and otherwise as often as the quickest site is asked: after `every_s`, then
    each time after twice as long, up to 30 s. Tells the channels what is new and bad, and at the end how it ended.
    Raises: Misuse (not-found, ambiguous, bad-settings).
    """
    watched = _watched(ctx, names)
    notices, alarms = Notices(channels(ctx, watched)), Alarms(ctx)
    poll = Poll(ctx, [record.id for record in watched], every_s=every_s)
    try:
        yield from _looks(ctx, poll, notices, alarms, every_s, limit_s)
    finally:
        poll.close()
        notices.close()


def _looks(
    ctx: Context, poll: Poll, notices: Notices, alarms: Alarms, every_s: float, limit_s: float | None
) -> Iterator[Snapshot]:
    began_s = heard_s = moved_s = shown_s = ctx.now_s()
    before: StatusReport | None = None
    known: dict[tuple[str, str], Alarm] = {}
    elsewhere: frozenset[str] = frozenset()
    end_s = float("inf") if limit_s is None else began_s + limit_s
    waiting = {view.record.machine for view in poll.views.values() if not is_over(view.record)}
    while True:
        heard = poll.wait_for_changes(min(end_s, heard_s + GIVE_UP_S))
        now_s = ctx.now_s()
        waiting -= {view.record.machine for view in heard}
        if any(view.reach.ok for view in heard):
            heard_s = now_s
        seen = of_views(ctx, list(poll.views.values()))
        new = _moved(before, seen)
        poll.moved(poll.views[row.id].record.machine for row in new)
        is_over_now = all(is_over(view.record) for view in poll.views.values())
        is_last = is_over_now or not heard or now_s >= end_s or now_s - heard_s >= GIVE_UP_S
        if not is_last and before is None and waiting and now_s - began_s < every_s:
            continue  # the first look is of all that answer at once
        if not is_last and before is not None and not new and now_s - shown_s < every_s:
            continue
        holding = alarms.now([view.record for view in poll.views.values()])
        fresh = [alarm for alarm in holding if alarm.key not in known]
        known = {alarm.key: alarm for alarm in holding}
        news = [] if before is None else list(_news(before, seen))
        news += [f"alarm: {alarm.line}" for alarm in fresh]
        news += _beside(elsewhere, elsewhere := frozenset(poll.elsewhere))
        ours = _without(seen, elsewhere)
        bad = [] if before is None else _bad(before, ours)
        notices.send("sojourn", [*bad, *(alarm.line for alarm in fresh if _is_sent(alarm, seen, ours))])
        if new or before is None:
            moved_s = now_s
        if is_last:
            if before is not None:
                notices.send("sojourn", _ends(ours))
            notices.close()
        news += notices.trouble()
        shown_s = now_s
        pause_s = 0.0 if is_last else poll.next_look_s
        clocks = tuple(alarms.clocks([view.record for view in poll.views.values()]))
        beside = tuple(sorted(elsewhere))
        yield Snapshot(seen, tuple(news), now_s - moved_s, pause_s, is_last, tuple(holding), beside, clocks)
        if is_last:
            return
        before = seen


def _watched(ctx: Context, names: Sequence[str]) -> list[RunRecord]:
    records = chosen(ctx, names)
    if names:
        return records
    return [r for r in records if r.attempt and not r.is_settled] or records[-1:]


def _moved(before: StatusReport | None, seen: StatusReport) -> list[Row]:
    """Rows with something new: everything but times and ages."""
    old = {} if before is None else {row.id: _movement(row) for row in before.rows}
    return [row for row in seen.rows if old.get(row.id) != _movement(row)]


def _movement(r: Row) -> tuple[Any, ...]:
    return (r.state, r.attempt, r.reach.ok, r.step, r.total, r.reason, r.home, r.is_home, r.budget_pct)


def _beside(were: frozenset[str], are: frozenset[str]) -> Iterator[str]:
    """What changed about other watches of the same runs."""
    for name in sorted(are - were):
        yield f"{name}: another `watch` here asks its box and sends the messages; this one shows what that one learns"
    for name in sorted(were - are):
        yield f"{name}: the other `watch` has ended; this one asks its box and sends the messages from here on"


def _without(seen: StatusReport, elsewhere: frozenset[str]) -> StatusReport:
    """The report without what another watch asks about."""
    rows = tuple(row for row in seen.rows if (row.sweep or row.id) not in elsewhere)
    return replace(seen, rows=rows, sweeps=tuple(one for one in seen.sweeps if one["id"] not in elsewhere))


def _is_sent(alarm: Alarm, seen: StatusReport, ours: StatusReport) -> bool:
    """An alarm of one of our runs; one of a lease is sent unless every run here is watched elsewhere."""
    if alarm.about in {row.id for row in seen.rows}:
        return alarm.about in {row.id for row in ours.rows}
    return bool(ours.rows) or not seen.rows


def _bad(before: StatusReport, seen: StatusReport) -> Iterator[str]:
    """What ended badly since."""
    old = {row.id: row for row in before.rows}
    for row in seen.rows:
        was = old.get(row.id, row)
        if row.state.is_dead and (was.state, was.attempt) != (row.state, row.attempt):
            yield f"{row.id}: {row.state.value}{f' ({row.reason})' if row.reason else ''}"


def _ends(seen: StatusReport) -> list[str]:
    """How everything ended: one line per sweep, and one per run outside a sweep."""
    out = []
    for sweep in seen.sweeps:
        states = ", ".join(f"{count} {state}" for state, count in sweep["states"].items())
        out.append(f"{sweep['id']}: {states}, {sweep['home']} home")
    return [*out, *(f"{row.id}: {row.state.value}{', home' * row.is_home}" for row in seen.rows if not row.sweep)]


def _news(before: StatusReport, seen: StatusReport) -> Iterable[str]:
    old = {row.id: row for row in before.rows}
    for row in seen.rows:
        yield from _news_of(old.get(row.id, row), row)


def _news_of(old: Row, row: Row) -> Iterator[str]:
    if (old.state, old.attempt) != (row.state, row.attempt):
        attempt = f", attempt {row.attempt}" if row.attempt != old.attempt else ""
        reason = f" ({row.reason})" if row.reason else ""
        yield f"{row.id}: {old.state.value} -> {row.state.value}{attempt}{reason}"
    elif row.reason and row.reason != old.reason:
        yield f"{row.id}: {row.reason}"
    if row.reach.ok is False and old.reach.ok is not False:
        what = "sends an answer that cannot be used" if row.reach.is_sick else "does not answer"
        yield f"{row.id}: {row.site} {what} ({row.reach.error}); showing its last known state"
    elif old.reach.ok is False and row.reach.ok:
        yield f"{row.id}: {row.site} answers again"
    if _tenth(row) > _tenth(old):
        left = f", {say_seconds(row.remaining_s)} left" if row.remaining_s is not None else ""
        yield f"{row.id}: {row.unit or 'step'} {row.step} of {row.total}, {row.percentage:.0f} %{left}"
    if row.is_home and not old.is_home:
        yield f"{row.id}: home and verified"


def _tenth(row: Row) -> int:
    return int((row.percentage or 0.0) // STEP_PCT)
