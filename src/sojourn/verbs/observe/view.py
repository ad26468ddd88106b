"""One run as last seen: what to show, its box's answer, and the next command for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.fold import Status
from sojourn.core.ports import SchedulerStatus
from sojourn.core.values import Meter, Pulse, State
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Reach


@dataclass(frozen=True)
class RunView:
    """The current view of a run. `status` is what to show; `keeper`, `payload`: alive gone none unknown, or ""."""

    record: RunRecord
    status: Status
    reach: Reach
    keeper: str = ""
    payload: str = ""
    has_root: bool = False  # the box answered, and the run's root is there
    is_other: bool = False  # the root there is that of a run with another specification, put there by another client
    argv: tuple[str, ...] = ()  # what starts its keeper, as the box says where none lives
    word: SchedulerStatus | None = None  # what the scheduler says of it, on a site that has one
    queue: Mapping[str, Any] = field(default_factory=dict)  # of a cell: how its box's queue stands, as `since` has it

    @property
    def is_blind(self) -> bool:
        """It runs where it cannot be looked at."""
        return self.word is not None and self.word.is_blind and self.word.pulse is Pulse.ALIVE

    @property
    def never_began(self) -> bool:
        """Whether it never reached a box: it was not launched, or its client died before it could ask the box."""
        record = self.record
        if record.phase in ("withdrawn", "moving") and record.heard.attempt == 0:
            return True
        return record.attempt == 0 or (bool(self.reach.ok) and not self.has_root and record.heard.attempt == 0)


def meter_of(record: RunRecord, lease: LeaseRecord | None) -> Meter:
    """What we know about the money that this run's lease costs."""
    if lease is None:
        return Meter.FREE if not record.site.rate_micro_per_h else Meter.STOPPED
    return lease.meter


def next_step(view: RunView, lease: LeaseRecord | None) -> str:
    """The command that moves this run on, or "" where nothing is left to do."""
    record, state = view.record, view.status.state
    if view.reach.ok is False:
        return f"sojourn status {record.id}"
    if state is State.PLANNED:
        return f"sojourn reconcile {record.sweep}" if record.sweep else "sojourn run"
    if state.is_alive:
        return f"sojourn watch {record.id}"
    if state in (State.CANCELLED, State.PREEMPTED):
        return f"sojourn resume {record.id}"
    if state.is_dead:
        return f"sojourn why {record.id}"
    if not record.is_home:
        # What was never made, or does not load, comes home no better the next time; the log tells why.
        return f"sojourn logs {record.id} --tail 50" if record.is_pulled else f"sojourn pull {record.id}"
    is_to_end = lease is not None and lease.is_open and lease.has_stop and lease.meter is not Meter.FREE
    return f"sojourn down {record.lease}" if is_to_end else ""
