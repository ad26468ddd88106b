"""`stop`: a durable request on the box to end the attempt with grace, and a bounded wait to see it end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Stop
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Box, Context, start
from sojourn.verbs.launch.prepare import GRACE_S
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.observe.view import RunView
from sojourn.wire import units

AFTER_GRACE_S = 20.0  # for the keeper to see the end after the grace is over
LOOK_S = 0.3


def grace_of(record: RunRecord) -> float:
    """How long the job's own specification gives it to save, in seconds."""
    grace_s = record.run.spec.get("grace_s")
    return GRACE_S if grace_s is None else float(grace_s)


def stop(
    ctx: Context, run: str, *, confirm: Confirm, grace_s: float | None = None, wait_s: float | None = None
) -> Stop:
    """End the living attempt: SIGTERM, `grace_s` for a last checkpoint (the job's own by default), then SIGKILL.

    The request lies on the box before this waits, so the end comes also when nobody waits for it. Where the keeper is
    gone one is started, which adopts the process and ends it. A run that is not alive is left as it is.
    Waits at most the grace and 20 s, or `wait_s`. Raises: Misuse (not-found), NotConfirmed, Unreachable, WorldError.
    """
    view = refresh_one(ctx, ctx.store.index.find(run))
    record, status = view.record, view.status
    if status.state is State.QUEUED and record.queue:
        confirmed(confirm, _ask_queued(record))
        if withdraw(ctx, ctx.box(record.site, record.lease), record.queue, [record.id], "stop"):
            fresh = refresh_one(ctx, ctx.store.index.find(record.id))
            return _answer(fresh, True, "it was removed from its queue before it began")
        view = refresh_one(ctx, ctx.store.index.find(record.id))  # it began this very moment, and was confirmed
        record, status, confirm = view.record, view.status, lambda ask: ask.name
    if view.never_began or (status.state.is_final and view.keeper != "alive"):
        return _answer(view, True, "it is not running: there is nothing to stop")
    attempt = max(record.attempt, record.heard.attempt if view.keeper == "queued" else status.attempt)
    grace_s = grace_of(record) if grace_s is None else grace_s
    confirmed(confirm, _ask(view, attempt, grace_s))
    box = ctx.box(record.site, record.lease)
    ctx.store.append("stopping", run=record.id, attempt=attempt)
    answer = box.answer("stop", run=record.id, attempt=attempt, grace_s=grace_s, why="stop")
    if box.scheduler:
        _end_there(box, view, grace_s)
    elif answer.value["keeper"] != "alive":
        box.must(start(box, answer.value["argv"]))
    deadline_s = ctx.now_s() + (grace_s + AFTER_GRACE_S if wait_s is None else wait_s)
    while True:
        view = refresh_one(ctx, ctx.store.index.find(record.id))
        if view.status.state.is_final and view.status.attempt >= attempt:
            return _answer(view, True, f"attempt {attempt} ended: {view.status.state.value}")
        if ctx.now_s() >= deadline_s:
            return _answer(view, False, "it was asked to stop and has not ended yet")
        ctx.say(f"{record.id}: waiting for attempt {attempt} to end")
        ctx.sleep(LOOK_S)


def _end_there(box: Box, view: RunView, grace_s: float) -> None:
    """End what waits in the queue, or runs where it cannot read the request; else it does. Raises: Unreachable."""
    from sojourn.verbs.observe.scheduled import handle_of

    handle = handle_of(view.record)
    if (view.keeper == "queued" or view.is_blind) and handle is not None:
        box.must(box.launcher.stop(box.place, handle, grace_s if view.is_blind else 0.0))


def withdraw(ctx: Context, box: Box, sweep: str, runs: Sequence[str], why: str, *, rest: bool = False) -> list[str]:
    """Take cells away from the queue of a box, and journal its word for it: those that it has not begun, and never
    will. `why`: stop, or move. `rest`: it also promotes no pruned cell any more. Raises: Unreachable, WorldError.
    """
    more = {"rest": True} if rest else {}
    taken = box.answer("withdraw", queue=sweep, runs=list(runs), why=why, **more).value["taken"]
    if taken:
        ctx.store.append("withdrawn", sweep=sweep, site=box.site.name, runs=taken, why=why)
    return list(taken)


def _ask_queued(record: RunRecord) -> Ask:
    lines = (
        f"take {record.id} from the queue{f' of {record.sweep}' * bool(record.sweep)} on {record.site_name};"
        " it has not started",
        f"nothing is deleted; `sojourn resume {record.id}` starts it",
    )
    return Ask("stop", record.id, lines, f"sojourn stop {record.id} --confirm {record.id}")


def _ask(view: RunView, attempt: int, grace_s: float) -> Ask:
    run, status = view.record.id, view.status
    lines = [f"stop {run}, attempt {attempt} ({status.state.value}) on {view.record.site_name}"]
    if status.step is not None:
        lines.append(
            f"it is at {status.unit or 'step'} {status.step}" + (f" of {status.total}" if status.total else "")
        )
    if status.checkpoint:
        lines.append(f"its last checkpoint is from step {status.checkpoint.get('step')}; later progress is lost")
    lines.append(f"it gets SIGTERM, {units.say_seconds(math.ceil(grace_s))} for a last checkpoint, then SIGKILL")
    lines.append(f"nothing is deleted; `sojourn resume {run}` continues it")
    return Ask("stop", run, tuple(lines), f"sojourn stop {run} --confirm {run}")


def _answer(view: RunView, ended: bool, why: str) -> Stop:
    run, state = view.record.id, view.status.state
    if not ended:
        following = f"sojourn status {run}"
    elif state is State.SUCCEEDED:
        following = f"sojourn pull {run}"
    else:
        following = "sojourn run" if view.record.attempt == 0 else f"sojourn resume {run}"
    return Stop(run, view.status.attempt, state, ended, why, following, 0 if ended else 1)
