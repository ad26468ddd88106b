"""When to save: every so many seconds, steps or epochs if requested, else as often as wastes the least time."""

from __future__ import annotations

import time
from collections import deque

from sojourn.train.interruptions import Interruptions
from sojourn.wire import cadence, units
from sojourn.wire.errors import Misuse

FLOOR_S, CEILING_S = 10.0, 1800.0  # saving more often wears the disk; less often risks over half an hour's work
RETRY_S = 60.0
# Until a save is measured: bytes per second, and the least time for open, fsync and rename.
GUESS_BYTES_PER_S, GUESS_S = 200e6, 0.02


class BadPace(Misuse):
    """{name} must be above 0, not {value}."""

    code = "bad-pace"


class Pace:
    """Decides when a save is due.

    A save costs the time that training loses by it: standing still for the copy (or the whole write), and running
    slower while another process writes. A kill costs the work since the newest durable copy of the state, which must
    stay within the interval or `every_steps`; so the time until a copy is durable is taken off them, up to half.
    `window`: a save can come only every so many steps, so it comes before the window that would overrun.   Raises:
    BadPace.
    """

    def __init__(
        self, every_s: float | None, every_steps: int | None, every_epochs: int | None, mtbf_s: float | None
    ) -> None:
        given = {"every_s": every_s, "every_steps": every_steps, "every_epochs": every_epochs, "mtbf_s": mtbf_s}
        for name, value in given.items():
            if value is not None and not value > 0:
                raise BadPace(name=name, value=value)
        self.every_s, self.every_steps, self.every_epochs = every_s, every_steps, every_epochs
        self.is_auto = every_s is None and every_steps is None and every_epochs is None
        self.interruptions = Interruptions(mtbf_s)
        self.lost_s = self.tail_s = self.durable_s = 0.0  # a save's cost; copied until durable; begun until durable
        self.is_measured = False
        self._from_s = self._safe_s = self._not_before_s = time.monotonic()  # of the newest copy; of the durable one
        self._from_step = self._safe_step = 0
        self._steps_s: deque[float] = deque(maxlen=33)  # of steps while nothing is written
        self._step_s = self._stepped_s = self._busy_s = 0.0
        self._busy_steps = self._shown_s = 0
        self.window = 1
        self._is_lost = False

    @property
    def interval_s(self) -> float | None:
        """Seconds between saves; None if only steps or epochs count."""
        if not self.is_auto:
            return self.every_s
        best_s = cadence.interval_s(self.interruptions.mtbf_s, self.lost_s or GUESS_S)
        return min(CEILING_S, max(FLOOR_S, self.durable_s, best_s))

    def expect(self, size_bytes: int) -> None:
        """Estimate the cost of a save of this size until one is measured."""
        if not self.is_measured:
            self.lost_s = GUESS_S + size_bytes / GUESS_BYTES_PER_S

    def stepped(self, is_writing: bool) -> None:
        """A step was taken; `is_writing`: another process is writing."""
        now_s = time.monotonic()
        took_s = now_s - self._stepped_s
        if self._stepped_s and is_writing:
            if took_s < 4 * self._step_s:  # anything longer is not a step: an evaluation, say
                self._busy_s, self._busy_steps = self._busy_s + took_s, self._busy_steps + 1
        elif self._stepped_s:
            self._steps_s.append(took_s)
            if len(self._steps_s) < 8 or not self._step_s or len(self._steps_s) % 8 == 0:
                self._step_s = sorted(self._steps_s)[len(self._steps_s) // 2]
        self._stepped_s = now_s

    def goes_on(self, step: int) -> None:
        """All steps up to this one are on disk."""
        self._from_step = self._safe_step = step

    def copied(self, step: int) -> None:
        """The training continues after a save that is, or will be, written: the next interval starts now."""
        self._from_s, self._from_step, self._is_lost = time.monotonic(), step, False
        self._stepped_s, self._busy_s, self._busy_steps = self._from_s, 0.0, 0

    def saved(self, stall_s: float, durable_s: float) -> None:
        """The latest copy is durable `durable_s` seconds after its save began; training stood still for `stall_s`."""
        self._safe_s, self._safe_step, self._not_before_s = self._from_s, self._from_step, 0.0
        slower_s = max(0.0, self._busy_s - self._busy_steps * self._step_s) if self._step_s else 0.0
        lost_s = max(1e-4, stall_s + min(slower_s, durable_s))
        old, tail_s = self.is_measured, durable_s - stall_s
        self.lost_s = (self.lost_s + lost_s) / 2 if old else lost_s
        self.durable_s = (self.durable_s + durable_s) / 2 if old else durable_s
        self.tail_s = (self.tail_s + tail_s) / 2 if old else tail_s
        self.is_measured = True

    def failed(self) -> None:
        """A save failed: none is due for a minute, or for the interval if that is shorter."""
        interval_s = self.interval_s
        self._not_before_s = time.monotonic() + (RETRY_S if interval_s is None else min(RETRY_S, interval_s))

    def lost(self) -> None:
        """The newest copy was lost before it was durable: save at the next step."""
        self._from_s, self._from_step, self._is_lost = self._safe_s, self._safe_step, True

    def is_due(self, step: int) -> bool:
        """After a step. An interval is rounded down to a step: a save comes before the step that would overrun it.

        Steps count in multiples or, if a copy takes some to become durable, from the latest copy.
        """
        now_s, interval_s = time.monotonic(), self.interval_s
        if now_s < self._not_before_s or self._is_lost:
            return self._is_lost
        if self.every_steps is not None:
            early = max(self._tail_steps(self.every_steps), self.window - 1)
            if step - self._from_step >= self.every_steps - early if early else step % self.every_steps == 0:
                return True
        if interval_s is None:
            return False
        return now_s - self._from_s + self.window * self._step_s >= max(interval_s / 2, interval_s - self.tail_s)

    def is_late(self, step: int) -> bool:
        """After a step: the interval or `every_steps` have passed since the newest copy."""
        interval_s = self.interval_s
        if interval_s is not None and time.monotonic() - self._from_s + self._step_s >= interval_s:
            return True
        return self.every_steps is not None and step - self._from_step >= self.every_steps

    def is_spent(self, step: int) -> bool:
        """After a step: one more, and a kill would cost more than the interval or `every_steps` allow."""
        interval_s = self.interval_s
        if interval_s is not None and time.monotonic() - self._safe_s + self._step_s >= interval_s:
            return True
        return self.every_steps is not None and step - self._safe_step >= self.every_steps

    def _tail_steps(self, every: int) -> int:
        """Steps taken until a copy is durable; at most half of `every`."""
        most = int(every // 2)
        if self.tail_s <= 0.0 or not self._step_s:
            return most if self.tail_s > 0.0 else 0
        return int(min(most, -(-self.tail_s // self._step_s)))

    def is_due_after_epoch(self, ended: int) -> bool:
        """After `ended` epochs have ended."""
        return self.every_epochs is not None and ended % self.every_epochs == 0

    def words(self) -> str:
        """How often, for a person."""
        if self.is_auto and self.interval_s is not None:
            self._shown_s = round(self.interval_s)
            often = f"about every {units.say_seconds(self.interval_s)}"
            if self._step_s:
                often += f" or {cadence.steps(self.interval_s, self._step_s)} steps"
            return f"{often} ({self.lost_s:.2f} s lost a save, {self.interruptions.words()})"
        said = [_every(self.every_steps, "step"), _every(self.every_epochs, "epoch")]
        said += [] if self.every_s is None else [f"every {units.say_seconds(self.every_s)}"]
        return " and ".join(word for word in said if word)

    def news(self) -> str:
        """`words` if measurements have moved the interval to half or twice what was last shown; "" else."""
        now_s = self.interval_s
        if not self.is_auto or now_s is None or not self._shown_s:
            return ""
        return self.words() if not 0.5 < now_s / self._shown_s < 2.0 else ""


def _every(count: int | None, what: str) -> str:
    if count is None:
        return ""
    return f"every {what}" if count == 1 else f"every {count:g} {what}s"
