"""`watch`: looks until all runs are final, ever more rarely while nothing moves, and says when nothing is new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Row, Snapshot, Status
from sojourn.verbs.context import Context
from sojourn.verbs.status import chosen, look
from sojourn.wire.units import say_seconds

SLOWER, SLOWEST_S = 1.5, 30.0  # each look that shows no movement makes the next one later
GIVE_UP_S = 3600.0  # nothing answered for so long
STEP_PCT = 10.0  # progress is news each time it passes another of these


def watch(
    ctx: Context, names: Sequence[str] = (), *, every_s: float = 2.0, limit_s: float | None = None
) -> Iterator[Snapshot]:
    """Looks at the runs named, or at all that are not final (at the newest where there is none).

    Ends when all are final, after `limit_s`, or when no site has answered for an hour; the last look says `is_last`.
    Between looks it sleeps: `every_s`, rising to 30 s while nothing moves. Raises: Misuse (not-found, ambiguous).
    """
    ids = [record.id for record in _watched(ctx, names)]
    began_s = heard_s = moved_s = ctx.now_s()
    pause_s, before = every_s, None
    while True:
        records = [record for record in map(ctx.store.index.run, ids) if record is not None]
        seen = look(ctx, records)
        now_s = ctx.now_s()
        if before is None or _movement(seen) != _movement(before):
            moved_s, pause_s = now_s, every_s
        else:
            pause_s = max(every_s, min(pause_s * SLOWER, SLOWEST_S))
        if any(row.reach.ok for row in seen.rows):
            heard_s = now_s
        is_last = (
            all(_is_over(record) for record in map(ctx.store.index.run, ids) if record is not None)
            or (limit_s is not None and now_s - began_s + pause_s > limit_s)
            or now_s - heard_s >= GIVE_UP_S
        )
        news = () if before is None else tuple(_news(before, seen))
        yield Snapshot(seen, news, now_s - moved_s, 0.0 if is_last else pause_s, is_last)
        if is_last:
            return
        before = seen
        ctx.sleep(pause_s)


def _is_over(record: RunRecord) -> bool:
    """It has ended, and no keeper is about to seal it or to start its next attempt."""
    return record.status.state.is_final and (record.is_settled or record.keeper not in ("alive", "unknown"))


def _watched(ctx: Context, names: Sequence[str]) -> list[RunRecord]:
    records = chosen(ctx, names)
    if names:
        return records
    return [r for r in records if r.attempt and not r.is_settled] or records[-1:]


def _movement(seen: Status) -> list[tuple[Any, ...]]:
    """What counts as something new: everything but times and ages."""
    return [(r.id, r.state, r.attempt, r.reach.ok, r.step, r.total, r.reason, r.home, r.is_home) for r in seen.rows]


def _news(before: Status, seen: Status) -> Iterator[str]:
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
        yield f"{row.id}: {row.site} does not answer ({row.reach.error}); its state is the last one known"
    elif old.reach.ok is False and row.reach.ok:
        yield f"{row.id}: {row.site} answers again"
    if _tenth(row) > _tenth(old):
        left = f", {say_seconds(row.remaining_s)} left" if row.remaining_s is not None else ""
        yield f"{row.id}: step {row.step} of {row.total}, {row.percentage:.0f} %{left}"
    if row.is_home and not old.is_home:
        yield f"{row.id}: home and proven"


def _tenth(row: Row) -> int:
    return int((row.percentage or 0.0) // STEP_PCT)
