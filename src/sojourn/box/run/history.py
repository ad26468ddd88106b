"""The run's own events about its last attempt: the keeper's memory across its own death. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple

    from sojourn.wire.documents import Event

_CUT_OFF = ("killed", "lost", "preempted")


class History:
    """Folded from events one by one. `attempt` 0 = nothing ever started."""

    def __init__(self) -> None:
        self.seq = 0
        self.attempt = 0
        self.spent_s = 0.0  # payload seconds of all ended attempts
        self.cut_off = 0  # how many of these were cut off: neither ended by themselves nor by a person
        self.checkpoint: Tuple[Any, ...] = ()  # path and step of the last one recorded
        self.budget: Tuple[int, float] = (0, 0.0)  # the last mark reached, and of which limit, over all attempts
        self._forget()

    def _forget(self) -> None:
        self.begun: Event = {}  # the `attempt` event of the last attempt
        self.is_prepared = False
        self.resumes = ""  # what it could resume from
        self.started: Event = {}
        self.lived_s = 0.0  # by its last beat
        self.ended: Event = {}
        self.is_sealed = False
        self.is_judged = False
        self.ruled: Event = {}  # the user's rule that matches its end, once checked
        self.has_saved = False
        self.signalled: Event = {}  # the last `signal` event before its end

    def add(self, event: Event) -> None:
        """Take in one event. Events of earlier attempts are late news and change nothing."""
        seq, attempt = event.get("seq"), event.get("attempt")
        if isinstance(seq, int):
            self.seq = max(self.seq, seq)
        if not isinstance(attempt, int) or attempt < self.attempt:
            return
        kind = event.get("kind")
        if attempt > self.attempt:
            self.attempt = attempt
            self._forget()
        if kind == "attempt":
            self.begun = event
        elif kind == "prepared":
            self.is_prepared, self.resumes = True, str(event.get("resumes") or "")
        elif kind == "started":
            self.started = event
        elif kind == "beat":
            self.lived_s = _seconds(event.get("payload_s"))
        elif kind == "signal" and not self.ended:
            self.signalled = event
        elif kind == "checkpoint":
            self.checkpoint, self.has_saved = (event.get("path"), event.get("step")), True
        elif kind == "budget":
            self.budget = (int(_seconds(event.get("pct"))), _seconds(event.get("limit_s")))
        elif kind == "ended":
            self.spent_s += _seconds(event.get("seconds"))
            self.cut_off += event.get("state") in _CUT_OFF
            self.ended = event
        elif kind == "refused":
            self.ended, self.is_sealed = event.copy(), True  # its files belong to somebody else
            self.ended["state"] = "failed"
        elif kind == "sealed":
            self.is_sealed = True
        elif kind == "ruled":
            self.ruled = event
        elif kind == "judged":
            self.is_judged = True

    @property
    def is_over(self) -> bool:
        """The last attempt has an end (or there was none yet)."""
        return not self.attempt or bool(self.ended)

    @property
    def state(self) -> str:
        """The state in which the last attempt ended; "" until then."""
        return str(self.ended.get("state", ""))


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
