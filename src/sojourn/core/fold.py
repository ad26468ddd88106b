"""Events of a run -> its status. Pure and incremental: folding a prefix and then the rest equals folding all.

The fold reads only what the keeper wrote; what `since` says beside the events (keeper and payload alive or gone) is
laid over it by `settle`, whose result is shown and never folded into.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sojourn.core import heard as told_by
from sojourn.core.heard import heard, whole
from sojourn.core.values import State, build_frozen
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.wire.documents import Event

_PACE_WINDOW_S = 300.0  # the rate of steps is taken over the last 5 to 10 minutes, so that a changed pace shows
_KEPT_ENDS = 20
_BUSY_PCT = 5.0  # of a card; below that nothing trains (forgotten-box)
_LIMITS = {
    "max_duration": "max_duration was reached",
    "budget": "the budget was spent",
    "walltime": "the scheduler's time limit was reached",
}


@dataclass(frozen=True)
class Status:
    """Where a run stands, by its own events. Stamps are of the box's clock; "" or None = not heard."""

    state: State = State.PLANNED
    attempt: int = 0
    since: str = ""  # when the state began
    started_at: str = ""  # when the process of this attempt began
    beat_at: str = ""
    step: int | None = None
    total: int | None = None
    epoch: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    remaining_s: float | None = None  # as of the last step heard
    log_bytes: int | None = None
    log_age_s: float | None = None  # as of the last beat
    reason: str = ""
    rc: int | None = None
    signal: int | None = None
    oom_kill: int | None = None
    checkpoint: Mapping[str, Any] | None = None  # {"path", "step", "bytes", "at"}, "write_s" where it was measured
    manifest: str = ""  # digest of the sealed manifest of this attempt
    missing: tuple[str, ...] = ()  # globs owed that hit nothing when it was sealed
    cause: str = ""  # in one line, why it ended badly; judged by the client from the log's last words, not folded
    cause_id: str = ""  # of the gotcha that it is, where it is a known one; not folded
    # the last ends: {"attempt", "state", "rc", "signal", "at", "reason", "by", "why", "oom_kill_delta", "seconds"},
    # and "rule", "action" where a rule of the user's fits
    ends: tuple[Mapping[str, Any], ...] = ()
    pace: tuple[tuple[float, int], ...] = ()  # (seconds, step): an older and a younger mark of this attempt
    idle_since: str = ""  # since when no card of its box was busy, as its beats have it; "": one was, or none is told
    began_anew: str = ""  # what this attempt could have resumed from, and did not
    seq: int = 0
    spent_s: float = 0.0  # of the process, in all attempts that ended
    seat: str = ""  # what a scheduler gave this attempt: the native id of its job, a colon, how often that was started
    judged: int = 0  # the last attempt of which the scheduler's own record was heard

    @property
    def percentage(self) -> float | None:
        """0 to 100, or None where the training said no total."""
        if self.step is None or not self.total:
            return None
        return min(100.0, 100.0 * self.step / self.total)

    @property
    def is_sealed(self) -> bool:
        """The keeper sealed this attempt's manifest: it has nothing more to say."""
        return self.state.is_final and bool(self.manifest)

    @property
    def awaits_judgement(self) -> bool:
        """It ended without success in a scheduler's seat, and whether that was the scheduler's doing is not known."""
        return bool(self.seat) and self.state.is_dead and self.judged < self.attempt


def fold(events: Iterable[Mapping[str, Any]], status: Status) -> Status:
    """`status` moved on by `events`, in their order. Skipped: those already seen (by `seq`), kinds unknown, and fields
    of another type.
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


def settle(status: Status, keeper: str, payload: str, asked: int = 0, is_queued: bool = False) -> Status:
    """What to show, given the pulses that came with the last events: "alive", "gone", "none" or "unknown"; the keeper's
    is "queued" while a scheduler has it wait, the payload's "held" where something lives that only a keeper can name.

    `asked` is the attempt that was launched last; `is_queued`: a queue on the box begins it in its turn. Only evidence
    moves the state: a pulse that is unknown moves nothing.
    """
    if keeper == "queued" and (asked > status.attempt or status.awaits_judgement or status.state.is_alive):
        number = max(asked, status.attempt + (1 if status.state.is_final else 0))
        return replace(status, state=State.QUEUED, attempt=number, reason="it waits in the queue", rc=None, signal=None)
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
            status, state=state, reason="the keeper is gone; the process keeps running until a new keeper adopts it"
        )
    if payload == "held" and keeper == "gone":
        return replace(status, reason="the keeper is gone; something of the attempt lives, the next keeper says what")
    if payload in ("gone", "none") and keeper == "gone":
        return replace(
            status,
            state=State.LOST,
            remaining_s=None,
            reason="its processes are gone and left no record of how they ended",
        )
    return status


def to_plain(status: Status) -> dict[str, Any]:
    """The status as JSON data: only what differs from the default, so that a thousand of them stay small."""
    out = {name: getattr(status, name) for name in _DEFAULTS if getattr(status, name) != _DEFAULTS[name]}
    if "state" in out:
        out["state"] = status.state.value
    return out


def from_plain(data: Mapping[str, Any]) -> Status:
    """The status of `to_plain`. Unknown keys are dropped; a newer version's state reads as "failed"."""
    known = {"metrics": {}, **data}  # the rest are plain defaults, which its class has
    if not known.keys() <= _DEFAULTS.keys():
        known = {name: known[name] for name in known if name in _DEFAULTS}
    if "state" in known:
        known["state"], why = _state(str(known["state"]))
        known["reason"] = known.get("reason", "") or why
    for name in ("missing", "ends"):
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
    return replace(
        status,
        state=State.STARTING,
        attempt=event["attempt"],
        since=_text(event.get("at")),
        started_at="",
        idle_since="",
        reason="",
        began_anew="",
        rc=None,
        signal=None,
        remaining_s=None,
        log_bytes=None,
        log_age_s=None,
        oom_kill=_count(event.get("oom_kill")),
        cause="",
        cause_id="",
        manifest="",
        missing=(),
        pace=(),
        seat=_text(event.get("seat")),
    )


def _started(status: Status, event: Event) -> Status:
    at = _text(event.get("at"))
    return replace(status, state=State.RUNNING, attempt=event["attempt"], since=at, started_at=at, reason="")


def _beat(status: Status, event: Event) -> Status:
    # A field that was not measured this time is absent, and what was measured before still stands.
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
    """Cards are told once a minute. One whose use is not known may be busy."""
    cards = event.get("gpu")
    if not isinstance(cards, (list, tuple)) or not cards:
        return status.idle_since
    used = [_number(card.get("util_pct")) if isinstance(card, Mapping) else None for card in cards]
    if any(pct is None or pct >= _BUSY_PCT for pct in used):
        return ""
    return status.idle_since or _text(event.get("at"))


def with_progress(status: Status, progress: Mapping[str, Any]) -> Status:
    """`status` with the progress file of the training process: {"step","total","epoch","metrics","at","checkpoint"}."""
    known = told_by.progress(progress)
    step, total, epoch, metrics = (known.get(name) for name in ("step", "total", "epoch", "metrics"))
    status = replace(
        status,
        step=step if step is not None else status.step,
        total=total if total is not None else status.total,
        epoch=epoch if epoch is not None else status.epoch,
        metrics=status.metrics if metrics is None else metrics,
    )
    mark = _mark(known["at"], step)
    if mark is None:
        return status
    pace = _paced(status.pace, mark)
    return replace(status, pace=pace, remaining_s=_remaining_s(pace, status.total))


def _paced(pace: tuple[tuple[float, int], ...], mark: tuple[float, int]) -> tuple[tuple[float, int], ...]:
    """At most three marks: older, younger, newest. The younger becomes the older once it is a window old."""
    if pace and mark[0] <= pace[-1][0]:
        return pace
    if len(pace) < 3:
        return (*pace, mark)
    older, younger, _ = pace
    if mark[0] - younger[0] >= _PACE_WINDOW_S:
        return (younger, mark, mark)
    return (older, younger, mark)


def _remaining_s(pace: tuple[tuple[float, int], ...], total: int | None) -> float | None:
    if len(pace) < 2 or total is None:
        return None
    seconds, steps = pace[-1][0] - pace[0][0], pace[-1][1] - pace[0][1]
    if seconds <= 0 or steps <= 0:
        return None
    return round(max(0, total - pace[-1][1]) * seconds / steps, 1)


def _checkpoint(status: Status, event: Event) -> Status:
    kept = {name: event.get(name) for name in ("path", "step", "bytes", "at")}
    if "write_s" in event:
        kept["write_s"] = _number(event["write_s"])
    return replace(status, checkpoint=kept)


def _restarted(status: Status, event: Event) -> Status:
    resumes = _text(event.get("resumes"))
    reason = f"this attempt began at step {event.get('step') or 0}, although {resumes} was there to resume from"
    return replace(status, began_anew=resumes, reason=reason if status.state is State.RUNNING else status.reason)


def _stalled(status: Status, event: Event) -> Status:
    if status.state is not State.RUNNING:
        return status
    quiet_s = _number(event.get("quiet_s")) or 0.0
    reason = f"no output, no step and no movement for {units.say_seconds(quiet_s)}"
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
    missing = event.get("missing")
    globs = tuple(str(glob) for glob in missing) if isinstance(missing, (list, tuple)) else ()
    return replace(status, manifest=_text(event.get("manifest")), missing=globs)


def _ruled(status: Status, event: Event) -> Status:
    """A rule of the user's fits the end: it says what follows."""
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
    """A scheduler's own record wins over what the box could see; what a person did or the run itself achieved stays."""
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
    "started": _started,
    "beat": _beat,
    "checkpoint": _checkpoint,
    "restarted": _restarted,
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
    return (state, "") if state else (State.FAILED, f"ended as {word!r}, a word of a newer version")


def _mark(at: str, step: int | None) -> tuple[float, int] | None:
    try:
        return None if step is None else (units.unstamp(at), step)
    except ValueError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
