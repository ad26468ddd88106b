"""What a scheduler says of the runs of its site: asked in one call for all, laid over what the box said, and written
down on the box once it is over, so that every client reads the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn.backends.keeper.client import KeeperRefused
from sojourn.core.fold import Status
from sojourn.core.ports import Handle, Scheduler, SchedulerStatus
from sojourn.core.values import NoAnswer, Pulse, State
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box
from sojourn.wire.errors import WorldError

if TYPE_CHECKING:
    from sojourn.verbs.observe.view import RunView


_UNKNOWN = SchedulerStatus(Pulse.UNKNOWN, reason="how it was submitted is not on record here")


def scheduler_of(box: Box) -> Scheduler:
    """The scheduler of a site that has one."""
    assert box.scheduler is not None, box.site.name
    return box.scheduler


def ask(box: Box, records: Sequence[RunRecord]) -> dict[str, SchedulerStatus]:
    """The scheduler's word on each run, by id."""
    handles = {record.id: handle for record in records if (handle := handle_of(record)) is not None}
    said = scheduler_of(box).states(box.place, list(handles.values())) if handles else ()
    words = dict(zip(handles, said, strict=True))
    return {record.id: words.get(record.id, _UNKNOWN) for record in records}


def handle_of(record: RunRecord) -> Handle | None:
    """The handle by which its launcher finds the last attempt: from the box, otherwise from the launch."""
    seat, known = record.heard.seat, record.handle
    facts = dict((known or {}).get("facts") or {})
    if seat and record.heard.attempt >= record.attempt:
        return Handle(record.site.launcher, seat.rpartition(":")[0], facts)
    return Handle(str(known["launcher"]), str(known["native"]), facts) if known else None


def withdraw(box: Box, views: Sequence[RunView]) -> None:
    """Take these from the scheduler's queue, all in one call. Raises: Unreachable."""
    handles = [handle for view in views if (handle := handle_of(view.record)) is not None]
    if handles:
        box.must(scheduler_of(box).cancel(box.place, handles))


def recalled(box: Box, known: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Those of these runs, by their handles there, that the scheduler will never start: what waits is taken from its
    queue. What it has started stays. Raises: Unreachable.
    """
    scheduler = scheduler_of(box)
    handles = {
        run: Handle(str(one["launcher"]), str(one["native"]), dict(one.get("facts") or {}))
        for run, one in known.items()
        if one
    }
    said = dict(zip(handles, scheduler.states(box.place, list(handles.values())), strict=True))
    waiting = [handles[run] for run, word in said.items() if word.is_waiting]
    if waiting:
        box.must(scheduler.cancel(box.place, waiting))
        said = dict(zip(handles, scheduler.states(box.place, list(handles.values())), strict=True))
    return [run for run in known if run not in said or said[run].pulse is Pulse.GONE]


def evidence(box: Box, record: RunRecord) -> dict[str, Any]:
    """What the scheduler keeps of the run's last attempt, as `probes` of an evidence document."""
    handle, heard = handle_of(record), record.heard
    if heard.judged and heard.judged == heard.attempt and not heard.seat:  # it took nothing, in these words
        return {record.site.launcher: {"rc": 1, "stdout": "", "stderr": heard.reason}}
    if handle is None or not record.run.root:
        return {}
    said = scheduler_of(box).records(box.place, handle, record.run.root)
    return {name: {"rc": rc, "stdout": text if rc == 0 else "", "stderr": "" if rc == 0 else text}
            for name, (rc, text) in said.items()}  # fmt: skip


def used(box: Box, records: Sequence[RunRecord]) -> str:
    """What these took of what the scheduler shares out; "" where nobody knows."""
    handles = [handle for record in records if (handle := handle_of(record)) is not None]
    return box.batch.used(box.place, handles) if box.batch and handles else ""


def tidied(box: Box, records: Sequence[RunRecord]) -> str:
    """Have the scheduler take away what it still keeps of these that are over, where it keeps anything; what stays."""
    tidy = getattr(box.launcher, "tidy", None)
    handles = [handle for record in records if (handle := handle_of(record)) is not None]
    if tidy is None or not handles:
        return ""
    try:
        said = tidy(box.place, handles)
    except WorldError as no:
        return f"what the scheduler still keeps of its runs was not taken away: {no.message}"
    if isinstance(said, NoAnswer):
        return f"what the scheduler still keeps of its runs was not taken away: {said.detail or said.kind}"
    return str(said)


def pulses(word: SchedulerStatus, keeper: str, payload: str) -> tuple[str, str]:
    """The pulses of keeper and payload as the scheduler knows them, who sees machines that we do not."""
    if word.pulse is Pulse.ALIVE:
        return ("queued" if word.is_waiting else "alive"), payload
    if keeper == "alive":
        return keeper, payload
    if word.pulse is Pulse.UNKNOWN or word.is_late:
        return "unknown", "unknown"
    return "gone", payload if payload in ("alive", "held") else "gone"


def with_scheduler(status: Status, word: SchedulerStatus) -> Status:
    """What to show, with the scheduler's own words where they are all that is known."""
    if word.is_blind and word.pulse is Pulse.ALIVE and not word.is_waiting:
        return replace(status, state=State.RUNNING, reason=word.reason)
    if status.state is State.QUEUED or (status.state.is_alive and word.pulse is Pulse.UNKNOWN and word.reason):
        return replace(status, reason=word.reason)
    if status.state is State.PREEMPTED and word.pulse is Pulse.ALIVE and status.awaits_judgement:
        return replace(status, reason=f"{status.reason}; whether it will be requeued is unknown")
    return status


def is_overdue(view: RunView) -> bool:
    """The scheduler is done with it, and that is not yet on record on the box."""
    word, heard = view.word, view.record.heard
    if word is None or word.pulse is not Pulse.GONE or word.is_late or view.keeper != "gone" or not view.has_root:
        return False
    return view.record.attempt > heard.attempt or heard.state.is_alive or heard.awaits_judgement


def record_on_box(box: Box, views: Sequence[RunView], timeout_s: float) -> bool:
    """Have the box write the scheduler's words down; False where it did not. Safe to repeat."""
    ops = [_op(box, view) for view in views if view.word is not None]
    try:
        return not isinstance(box.keeper.ask_all(ops, timeout_s=timeout_s), NoAnswer)
    except KeeperRefused as no:
        if no.code != "busy":
            raise
        return False


def _op(box: Box, view: RunView) -> Mapping[str, Any]:
    record, word = view.record, view.word
    assert word is not None
    handle = handle_of(record)
    state, detail = word.state, word.reason
    if state is None and record.heard.state is State.OOM and word.if_oom:
        state, detail = State.OOM, word.if_oom
    if state is None and record.attempt > record.heard.attempt and word.if_unbegun:
        state, detail = State.CANCELLED, word.if_unbegun
    return {
        "op": "judge",
        "run": record.id,
        "attempt": max(record.attempt, record.heard.attempt),
        "native": handle.native if handle else "",
        "by": box.site.launcher,
        "state": state.value if state else "",
        "detail": detail,
    }
