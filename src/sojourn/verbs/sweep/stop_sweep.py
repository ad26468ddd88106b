"""`stop` of a sweep: what waits is taken from every queue, what lives is asked to end; then a bounded wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import State
from sojourn.verbs.answers import document
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Context, start
from sojourn.verbs.launch.stop import AFTER_GRACE_S, LOOK_S, grace_of, withdraw
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.observe.view import RunView
from sojourn.wire import units
from sojourn.wire.errors import WorldError


@dataclass(frozen=True)
class StoppedSweep:
    """What it came to. `taken`: cells that never begin; `stopped`: cells that ended; `left`: asked, and not seen to
    end, or on a box that did not answer (then not even asked).
    """

    id: str
    taken: tuple[str, ...]
    stopped: tuple[str, ...]
    left: tuple[str, ...]
    why: str
    next: str
    remarks: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """1 where something may still run."""
        return 1 if self.left else 0

    def as_json(self) -> dict[str, Any]:
        """The `stop` document of a sweep."""
        return document(self, "stop", exit=self.exit_status)


def stop_sweep(
    ctx: Context, sweep: str, *, confirm: Confirm, grace_s: float | None = None, wait_s: float | None = None
) -> StoppedSweep:
    """End a sweep: no cell begins any more, and running cells get SIGTERM, time for a checkpoint, then SIGKILL.

    The requests lie on each box before this waits. A box that does not answer is a remark, and its cells are `left`.
    Raises: NotConfirmed.
    """
    views = _alive(ctx, sweep)
    if not views:
        return _answer(ctx, sweep, (), (), "none of its cells is queued or running: there is nothing to stop", ())
    graces = [grace_of(view.record) for view in views]
    grace = max(graces) if grace_s is None else grace_s
    confirmed(confirm, _ask(sweep, views, grace))
    waited = {view.record.id for view in views}
    taken: set[str] = set()
    asked: set[str] = set()
    remarks: dict[str, str] = {}
    deadline_s = ctx.now_s() + (grace + AFTER_GRACE_S if wait_s is None else wait_s)
    while views:
        for machine in dict.fromkeys(view.record.machine for view in views):
            here = [view for view in views if view.record.machine == machine and view.record.id not in asked]
            try:
                taken |= _stop_there(ctx, sweep, here, grace)
                asked |= {view.record.id for view in here if not _in_queue(view)}
            except WorldError as error:
                remarks[machine] = f"{machine}: {error.message}"
        views = [view for view in _alive(ctx, sweep) if view.record.machine not in remarks]
        if ctx.now_s() >= deadline_s:
            break
        if views:
            ctx.say(f"{sweep}: waiting for {len(views)} cells to end")
            ctx.sleep(LOOK_S)
    why = f"removed from their queues: {len(taken)}; asked to end: {len(waited - taken)}"
    return _answer(ctx, sweep, tuple(sorted(taken)), tuple(sorted(waited - taken)), why, tuple(remarks.values()))


def _alive(ctx: Context, sweep: str) -> list[RunView]:
    return [view for view in refresh(ctx, ctx.store.index.cells(sweep)).values() if view.status.state.is_alive]


def _in_queue(view: RunView) -> bool:
    """It waits in a queue of ours; what waits in a scheduler's is stopped like what lives."""
    return view.status.state is State.QUEUED and bool(view.record.queue)


def _stop_there(ctx: Context, sweep: str, views: Sequence[RunView], grace_s: float) -> set[str]:
    """On one box: first what waits, so that nothing begins in the place of what ends. Raises: WorldError."""
    if not views:
        return set()
    box = ctx.box(views[0].record.site, views[0].record.lease)
    queued = [view.record.id for view in views if _in_queue(view)]
    rests = not box.scheduler and any(view.record.run.spec.get("early_stop") for view in views)
    taken = set(withdraw(ctx, box, sweep, queued, "stop", rest=rests)) if queued or rests else set()
    living = [view for view in views if not _in_queue(view)]
    ops = []
    for view in living:
        attempt = max(view.record.attempt, view.status.attempt)
        ctx.store.append("stopping", run=view.record.id, attempt=attempt)
        ops.append({"op": "stop", "run": view.record.id, "attempt": attempt, "grace_s": grace_s, "why": "stop"})
    answers = box.answer_all(ops) if ops else []
    if box.scheduler:
        from sojourn.verbs.observe import scheduled

        scheduled.withdraw(box, [view for view in living if view.keeper == "queued" or view.is_blind])
        return taken
    for answer in answers:
        if answer.value["keeper"] != "alive":
            box.must(start(box, answer.value["argv"]))
    return taken


def _ask(sweep: str, views: Sequence[RunView], grace_s: float) -> Ask:
    queued = sum(view.status.state is State.QUEUED for view in views)
    grace = units.say_seconds(math.ceil(grace_s))
    lines = [f"stop the sweep {sweep}: {queued} cells that wait, {len(views) - queued} that live"]
    lines += [
        f"{view.record.id} ({view.status.state.value}) on {view.record.site_name}"
        for view in views
        if view.status.state is not State.QUEUED
    ][:20]
    lines.append(f"running cells get SIGTERM, {grace} for a last checkpoint, then SIGKILL")
    lines.append("nothing is deleted; `sojourn resume CELL` continues one")
    return Ask("stop", sweep, tuple(lines), f"sojourn stop {sweep} --confirm {sweep}")


def _answer(
    ctx: Context, sweep: str, taken: tuple[str, ...], asked: tuple[str, ...], why: str, remarks: tuple[str, ...]
) -> StoppedSweep:
    alive = {record.id for record in ctx.store.index.cells(sweep) if record.status.state.is_alive}
    stopped, left = tuple(run for run in asked if run not in alive), tuple(sorted(alive))
    return StoppedSweep(sweep, taken, stopped, left, why, f"sojourn status {sweep}", remarks)
