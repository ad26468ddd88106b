"""Events of a run -> its status. Pure and incremental: folding a prefix and then the rest equals folding all.

The fold reads only what the keeper wrote. What `since` reports beside the events (keeper and payload alive or gone) is
overlaid by `settle`; its result is shown, never folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sojourn.core import heard as told_by
from sojourn.core import steps
from sojourn.core.heard import heard, whole
from sojourn.core.values import State, build_frozen
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.wire.documents import Event

_KEPT_ENDS = 20
_BUSY_PCT = 5.0  # GPU use below which nothing is training (forgotten-box)
_LIMITS = {
    "max_duration": "max_duration was reached",
    "budget": "the budget was spent",
    "walltime": "the scheduler's time limit was reached",
}


@dataclass(frozen=True)
class Status:
    """Where a run stands, by its own events. Stamps use the box's clock; "" or None = not reported."""

    state: State = State.PLANNED
    attempt: int = 0
    since: str = ""  # when the state began
    started_at: str = ""  # when the process of this attempt began
    beat_at: str = ""
    step: int | None = None
    total: int | None = None
    epoch: int | None = None
    unit: str = ""  # what `step` and `total` count, if not steps: "epoch", "sample"
    metrics: Mapping[str, Any] = field(default_factory=dict)
    remaining_s: float | None = None  # as of the last reported step
    log_bytes: int | None = None
    log_age_s: float | None = None  # as of the last beat
    reason: str = ""
    rc: int | None = None
    signal: int | None = None
    oom_kill: int | None = None
    checkpoint: Mapping[str, Any] | None = None  # {"path", "step", "bytes", "at"}, and "write_s" if measured
    manifest: str = ""  # digest of this attempt's sealed manifest
    missing: tuple[str, ...] = ()  # owed globs that matched nothing at the seal
    unnamed: tuple[str, ...] = ()  # what loads and no output names, at the seal
    cause: str = ""  # why it ended badly, in one line; the client's judgement from the end of the log, not folded
    cause_id: str = ""  # id of the matching gotcha, if known; not folded
    # the last ends: {"attempt", "state", "rc", "signal", "at", "reason", "by", "why", "oom_kill_delta", "seconds"},
    # "code" (its digest), and "rule", "action" if a user's rule matches
    ends: tuple[Mapping[str, Any], ...] = ()
    pace: tuple[tuple[float, int], ...] = ()  # (seconds, step): an older and a younger mark of this attempt
    idle_since: str = ""  # since when no GPU of its box was busy, by its beats; "": one was, or unknown
    code: str = ""  # digest of this attempt's code
    began_anew: str = ""  # what this attempt could have resumed from but did not
    budget_pct: int = 0  # the last mark of its budget reached: 50, 80 or 100
    unheard_s: float = 0.0  # age of its end when this client learned of it, by the box's clock; not folded
    seq: int = 0
    spent_s: float = 0.0  # process time of all ended attempts
    seat: str = ""  # what a scheduler gave this attempt: its job's native id, a colon, how often that was started
    judged: int = 0  # the last attempt whose scheduler record was received

    @property
    def percentage(self) -> float | None:
        """0 to 100, or None if the training reported no total."""
        if self.step is None or not self.total:
            return None
        return min(100.0, 100.0 * self.step / self.total)

    @property
    def is_sealed(self) -> bool:
        """The keeper sealed this attempt's manifest and has nothing more to report."""
        return self.state.is_final and bool(self.manifest)

    @property
    def is_pruned(self) -> bool:
        """A cell that its sweep's `early_stop` ended: neither a failure nor missing."""
        return self.state is State.CANCELLED and bool(self.ends) and self.ends[-1].get("why") == "pruned"

    @property
    def awaits_judgement(self) -> bool:
        """It ended unsuccessfully in a scheduler's seat, and whether the scheduler ended it is unknown."""
        return bool(self.seat) and self.state.is_dead and self.judged < self.attempt


def fold(events: Iterable[Mapping[str, Any]], status: Status) -> Status:
    """`status` advanced by `events`, in order. Skips events seen before (by `seq`), unknown kinds, fields of another
    type.
    """
    for told in events:
        seq = whole(told.get("seq"))
        if seq is None or seq <= status.seq:
            continue
        status = replace(status, seq=seq)
        event = heard(told)
        if event is None or event["attempt"] < status.attempt:
            continue
        status = _MOVES[event["kind"]](status, event)
    return status


VANISHED = "vanished"  # the pulse of what ran on a machine that its provider says is gone


def settle(status: Status, keeper: str, payload: str, asked: int = 0, is_queued: bool = False) -> Status:
    """What to show, given the pulses that came with the last events: "alive", "gone", "none" or "unknown"; the keeper's
    is "queued" while it waits in a scheduler, the payload's "held" if something lives that only a keeper can name.

    `asked`: the attempt launched last; `is_queued`: a queue on the box will start it in turn. Only evidence moves the
    state: an unknown pulse changes nothing. VANISHED: nobody will ever answer for it.
    """
    if keeper == VANISHED and status.state is not State.SUCCEEDED and (status.state.is_alive or asked > status.attempt):
        reason = "its machine is gone, by its provider's word"
        return replace(status, state=State.LOST, attempt=max(asked, status.attempt), remaining_s=None, reason=reason)
    if keeper == "queued" and (asked > status.attempt or status.awaits_judgement or status.state.is_alive):
        number = max(asked, status.attempt + (1 if status.state.is_final else 0))
        return replace(status, state=State.QUEUED, attempt=number, reason="it waits in the queue", rc=None, signal=None)
    if status.state is State.SUCCEEDED:
        return status  # no keeper starts another attempt, whatever was requested before the end was known
    if asked > status.attempt:
        if keeper == "alive":
            return replace(status, state=State.STARTING, attempt=asked, reason="", rc=None, signal=None, manifest="")
        if is_queued:
            return replace(status, state=State.QUEUED, attempt=asked, reason="", rc=None, signal=None, manifest="")
        return replace(status, reason=f"attempt {asked} was requested and has not started")
    if not status.state.is_alive or keeper in ("alive", "unknown", "queued"):
        return status
    if payload == "alive":
        state = State.RUNNING if status.state is State.STARTING else status.state
        return replace(
            status, state=state, reason="the keeper is gone; the process keeps running, and a new keeper will adopt it"
        )
    if payload == "held" and keeper == "gone":
        return replace(status, reason="the keeper is gone; part of the attempt is still alive")
    if payload in ("gone", "none") and keeper == "gone":
        return replace(
            status,
            state=State.LOST,
            remaining_s=None,
            reason="its processes are gone and left no record of how they ended",
        )
    return status


def to_plain(status: Status) -> dict[str, Any]:
    """The status as JSON data: only what differs from the default, so a thousand of them stay small."""
    out = {name: getattr(status, name) for name in _DEFAULTS if getattr(status, name) != _DEFAULTS[name]}
    if "state" in out:
        out["state"] = status.state.value
    return out


def from_plain(data: Mapping[str, Any]) -> Status:
    """The status from `to_plain`. Unknown keys are dropped; a state from a newer version reads as "failed"."""
    known = {"metrics": {}, **data}  # the class has plain defaults for the rest
    if not known.keys() <= _DEFAULTS.keys():
        known = {name: known[name] for name in known if name in _DEFAULTS}
    if "state" in known:
        known["state"], why = _state(str(known["state"]))
        known["reason"] = known.get("reason", "") or why
    for name in ("missing", "unnamed", "ends"):
        if name in known:
            known[name] = tuple(known[name])
    if "pace" in known:
        known["pace"] = tuple((mark[0], mark[1]) for mark in known["pace"])
    return build_frozen(Status, known)


_DEFAULTS: dict[str, Any] = vars(Status())
_STATES = {state.value: state for state in State}


def _attempt(status: Status, event: Event) -> Status:
    if event["attempt"] == status.attempt and status.state is not State.PLANNED:
        return status
    told: dict[str, Any] = {
        "attempt": event["attempt"],
        "since": _text(event.get("at")),
        "seat": _text(event.get("seat")),
    }
    return replace(status, state=State.STARTING, oom_kill=_count(event.get("oom_kill")), **told, **_OF_AN_ATTEMPT)


# What is told of one attempt, as it is before anything was.
_OF_AN_ATTEMPT: dict[str, Any] = {
    **dict.fromkeys(("started_at", "idle_since", "reason", "code", "began_anew", "unit", "cause", "cause_id"), ""),
    **dict.fromkeys(("step", "total", "epoch", "rc", "signal", "remaining_s", "log_bytes", "log_age_s")),
    **dict.fromkeys(("missing", "unnamed", "pace"), ()),
    "manifest": "",
    "metrics": {},
}


def _prepared(status: Status, event: Event) -> Status:
    return replace(status, code=_text(event.get("code")))


def _started(status: Status, event: Event) -> Status:
    at = _text(event.get("at"))
    return replace(status, state=State.RUNNING, attempt=event["attempt"], since=at, started_at=at, reason="")


def _beat(status: Status, event: Event) -> Status:
    # A field that was not measured this time is absent; the earlier measurement stands.
    status = replace(
        status,
        beat_at=_text(event.get("at")),
        log_bytes=_count(event.get("log_bytes", status.log_bytes)),
        log_age_s=_number(event.get("log_age_s", status.log_age_s)),
        oom_kill=_count(event.get("oom_kill", status.oom_kill)),
        idle_since=_idle_since(status, event),
    )
    progress = event.get("progress")
    return with_progress(status, progress) if isinstance(progress, Mapping) else status


def _idle_since(status: Status, event: Event) -> str:
    """GPU use is reported once a minute. A GPU of unknown use may be busy."""
    cards = event.get("gpu")
    if not isinstance(cards, (list, tuple)) or not cards:
        return status.idle_since
    used = [_number(card.get("util_pct")) if isinstance(card, Mapping) else None for card in cards]
    if any(pct is None or pct >= _BUSY_PCT for pct in used):
        return ""
    return status.idle_since or _text(event.get("at"))


def with_progress(status: Status, progress: Mapping[str, Any]) -> Status:
    """`status` with the training process's progress, which is told whole: what it leaves out is no longer known."""
    known = told_by.progress(progress)
    step, total, unit = known.get("step"), known.get("total"), known.get("unit", "")
    if step is None or unit != status.unit:
        status = replace(status, pace=(), remaining_s=None)
    metrics = known.get("metrics", status.metrics)
    status = replace(status, step=step, total=total, epoch=known.get("epoch"), unit=unit, metrics=metrics)
    mark = steps.mark(known.get("at", ""), step)
    if mark is None:
        return status
    pace = steps.paced(status.pace, mark)
    return replace(status, pace=pace, remaining_s=steps.remaining_s(pace, status.total))


def _checkpoint(status: Status, event: Event) -> Status:
    kept = {name: event.get(name) for name in ("path", "step", "bytes", "at")}
    if "write_s" in event:
        kept["write_s"] = _number(event["write_s"])
    return replace(status, checkpoint=kept)


def _restarted(status: Status, event: Event) -> Status:
    resumes = _text(event.get("resumes"))
    reason = f"this attempt began at step {event.get('step') or 0}, although {resumes} was there to resume from"
    return replace(status, began_anew=resumes, reason=reason if status.state is State.RUNNING else status.reason)


def _budget(status: Status, event: Event) -> Status:
    return replace(status, budget_pct=min(100, _count(event.get("pct")) or 0))


def _stalled(status: Status, event: Event) -> Status:
    if status.state is not State.RUNNING:
        return status
    quiet_s = _number(event.get("quiet_s")) or 0.0
    reason = f"no output, steps or activity for {units.say_seconds(quiet_s)}"
    return replace(status, state=State.STALLED, since=_text(event.get("at")), reason=reason)


def _moving(status: Status, event: Event) -> Status:
    if status.state is not State.STALLED:
        return status
    return replace(status, state=State.RUNNING, since=_text(event.get("at")), reason="")


def _signal(status: Status, event: Event) -> Status:
    if not status.state.is_alive:
        return status
    return replace(status, reason=f"signal {event.get('signal')} sent: {_text(event.get('why'))}")


def _ended(status: Status, event: Event) -> Status:
    state, unknown = _state(_text(event.get("state")))
    at = _text(event.get("at"))
    why, detail = _text(event.get("why")), _text(event.get("detail"))
    limit = _LIMITS.get(why, "") if state is State.TIMEOUT else ""
    reason = unknown or (f"{limit} ({detail})" if limit and detail else limit or detail or why)
    rc, signal = _count(event.get("rc")), _count(event.get("signal"))
    known: Mapping[str, Any] = event
    end = {"attempt": event["attempt"], "state": state.value, "rc": rc, "signal": signal, "at": at, "reason": reason}
    end |= {name: known[name] for name in ("by", "why", "oom_kill_delta", "seconds") if name in known}
    if status.code and event["attempt"] == status.attempt:
        end["code"] = status.code
    return replace(
        status,
        state=state,
        attempt=event["attempt"],
        since=at,
        reason=reason,
        rc=rc,
        signal=signal,
        remaining_s=None,
        ends=(*status.ends, end)[-_KEPT_ENDS:],
        spent_s=status.spent_s + (_number(event.get("seconds")) or 0.0),
    )


def _sealed(status: Status, event: Event) -> Status:
    missing, unnamed = _texts(event.get("missing")), _texts(event.get("unnamed"))
    return replace(status, manifest=_text(event.get("manifest")), missing=missing, unnamed=unnamed)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def _ruled(status: Status, event: Event) -> Status:
    """If one of the user's rules matches the end, it decides what follows."""
    rule = _text(event.get("rule"))
    if not rule or event["attempt"] != status.attempt or not status.ends:
        return status
    end = {**status.ends[-1], "rule": rule, "action": _text(event.get("action"))}
    return replace(status, ends=(*status.ends[:-1], end))


def _refused(status: Status, event: Event) -> Status:
    return replace(
        status,
        state=State.FAILED,
        attempt=event["attempt"],
        since=_text(event.get("at")),
        reason=_text(event.get("why")),
    )


def _judged(status: Status, event: Event) -> Status:
    """A scheduler's own record overrides what the box could see; what a person did or the run itself achieved stays."""
    if event["attempt"] != status.attempt or not status.state.is_final:
        return status
    status = replace(status, judged=status.attempt)
    word = _text(event.get("state"))
    if not word or not status.state.is_dead:
        return status
    state, unknown = _state(word)
    if status.state is State.FAILED and state not in (State.OOM, State.TIMEOUT):
        return status
    at_last = dict(status.ends[-1], state=state.value, reason=_text(event.get("detail"))) if status.ends else {}
    ends = (*status.ends[:-1], at_last) if at_last else ()
    return replace(status, state=state, reason=unknown or _text(event.get("detail")) or status.reason, ends=ends)


_MOVES = {
    "attempt": _attempt,
    "prepared": _prepared,
    "started": _started,
    "beat": _beat,
    "checkpoint": _checkpoint,
    "restarted": _restarted,
    "budget": _budget,
    "stalled": _stalled,
    "moving": _moving,
    "signal": _signal,
    "ended": _ended,
    "sealed": _sealed,
    "judged": _judged,
    "ruled": _ruled,
    "refused": _refused,
}


def _state(word: str) -> tuple[State, str]:
    state = _STATES.get(word)
    return (state, "") if state else (State.FAILED, f"ended as {word!r}, a state from a newer version")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
