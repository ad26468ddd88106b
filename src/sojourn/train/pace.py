"""When to save: on request every so many seconds, steps or epochs, else as often as wastes the least time."""

from __future__ import annotations

import time

from sojourn.wire import cadence, units
from sojourn.wire.errors import Misuse

FLOOR_S, CEILING_S = 10.0, 1800.0  # a disk is not worn for less, nor more than half an hour's work put at stake
RETRY_S = 60.0
# Before the first save was measured: bytes a second, and what opening, fsync and renaming take at least.
GUESS_BYTES_PER_S, GUESS_S = 200e6, 0.02


class BadPace(Misuse):
    """{name} must be above 0, not {value}."""

    code = "bad-pace"


class Pace:
    """Decides when a save is due. Raises: BadPace."""

    def __init__(self, every_s: float | None, every_steps: int | None, every_epochs: int | None, mtbf_s: float) -> None:
        given = {"every_s": every_s, "every_steps": every_steps, "every_epochs": every_epochs, "mtbf_s": mtbf_s}
        for name, value in given.items():
            if value is not None and not value > 0:
                raise BadPace(name=name, value=value)
        self.every_s, self.every_steps, self.every_epochs, self.mtbf_s = every_s, every_steps, every_epochs, mtbf_s
        self.is_auto = every_s is None and every_steps is None and every_epochs is None
        self.write_s = 0.0
        self.is_measured = False
        self._from_s = self._not_before_s = time.monotonic()

    @property
    def interval_s(self) -> float | None:
        """Seconds between saves; None where only steps or epochs count."""
        if not self.is_auto:
            return self.every_s
        return min(CEILING_S, max(FLOOR_S, cadence.interval_s(self.mtbf_s, self.write_s or GUESS_S)))

    def expect(self, size_bytes: int) -> None:
        """Guess how long a save of this size takes, until one was measured."""
        if not self.is_measured:
            self.write_s = GUESS_S + size_bytes / GUESS_BYTES_PER_S

    def saved(self, took_s: float) -> None:
        """A save succeeded and took so long; the next interval starts now."""
        self.write_s = (self.write_s + took_s) / 2 if self.is_measured else took_s
        self.is_measured = True
        self._from_s = time.monotonic()

    def failed(self) -> None:
        """A save did not succeed: none is due for a minute, or for the interval where that is shorter."""
        interval_s = self.interval_s
        self._not_before_s = time.monotonic() + (RETRY_S if interval_s is None else min(RETRY_S, interval_s))

    def is_due(self, step: int) -> bool:
        """After a step."""
        now_s, interval_s = time.monotonic(), self.interval_s
        if now_s < self._not_before_s:
            return False
        if self.every_steps is not None and step % self.every_steps == 0:
            return True
        return interval_s is not None and now_s - self._from_s >= interval_s

    def is_due_after_epoch(self, ended: int) -> bool:
        """After `ended` epochs have ended."""
        return self.every_epochs is not None and ended % self.every_epochs == 0

    def words(self) -> str:
        """How often, for a person."""
        if self.is_auto and self.interval_s is not None:
            cost = f"{self.write_s:.2f} s a write, an interruption every {units.say_seconds(self.mtbf_s)}"
            return f"about every {units.say_seconds(self.interval_s)} ({cost})"
        said = [_every(self.every_steps, "step"), _every(self.every_epochs, "epoch")]
        said += [] if self.every_s is None else [f"every {units.say_seconds(self.every_s)}"]
        return " and ".join(word for word in said if word)


def _every(count: int | None, what: str) -> str:
    if count is None:
        return ""
    return f"every {what}" if count == 1 else f"every {count:g} {what}s"
