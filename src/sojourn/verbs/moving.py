"""What pushing and bringing home have in common: how long to try again after a cut, and what is said meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from sojourn.core.values import NoAnswer
from sojourn.wire import units

GIVE_UP_S = 120.0  # after the first try that failed since bytes moved
LEAST_BYTES = 64 << 10  # that a try which ran out of time must have moved to count
_FIRST_WAIT_S, _MOST_WAIT_S = 1.0, 15.0
_SAY_S = 1.0
_BURST_S = 0.2  # what was not used for so long may be made up for
_MEAN_S = 5.0  # the rate is that of about the last so many seconds
# No later try ends otherwise.
_FOR_GOOD = frozenset({"auth", "host-key", "config", "no-ssh", "relay", "no-exec", "not-rented", "login"})


class Patience:
    """When to go on after a call that brought no end: one deadline over all tries, counted from the first that failed
    since bytes moved.
    """

    def __init__(self, now_s: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._now_s, self._sleep = now_s, sleep
        self._since_s: float | None = None
        self._wait_s = _FIRST_WAIT_S

    def moved(self) -> None:
        """Bytes arrived."""
        self._since_s, self._wait_s = None, _FIRST_WAIT_S

    def is_over(self, answer: NoAnswer, arrived_bytes: int = 0) -> bool:
        """Whether to give up; else it has waited. `arrived_bytes`: by the call that ended with this."""
        # A box that keeps the line open and moves a byte now and then would be waited for without end.
        if arrived_bytes >= (LEAST_BYTES if answer.kind == "timeout" else 1):
            self.moved()
        if self._since_s is None:
            self._since_s = self._now_s()
        if answer.kind in _FOR_GOOD or self._now_s() - self._since_s + self._wait_s > GIVE_UP_S:
            return True
        self._sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, _MOST_WAIT_S)
        return False


class Pace:
    """Not more than `rate` bytes each second on average; 0: as fast as it goes."""

    def __init__(
        self, rate: int = 0, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.rate, self._now_s, self._sleep = rate, now_s, sleep
        self._due_s = 0.0

    def take(self, count: int) -> None:
        """So many bytes came: wait until the next may."""
        if self.rate:
            self._due_s = max(self._due_s, self._now_s() - _BURST_S) + count / self.rate
            self._sleep(max(0.0, self._due_s - self._now_s()))


class Progress:
    """Says about once a second how far it is, how fast, and how long it still takes."""

    def __init__(
        self,
        say: Callable[[str], None],
        what: str,
        total_bytes: int,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._what, self._total_bytes, self._clock_s = say, what, total_bytes, clock_s
        self._done_bytes = self._said_bytes = 0
        self._rate = 0.0
        self._said_s = clock_s()

    def add(self, count: int, name: str = "") -> None:
        """So many bytes more; `name`: of the file that they belong to."""
        self._done_bytes += count
        passed_s = self._clock_s() - self._said_s
        if passed_s < _SAY_S:
            return
        now = (self._done_bytes - self._said_bytes) / passed_s
        weight = min(1.0, passed_s / _MEAN_S) if self._rate else 1.0
        self._rate += weight * (now - self._rate)
        self._said_s, self._said_bytes = self._clock_s(), self._done_bytes
        done, total = units.say_bytes(self._done_bytes), units.say_bytes(self._total_bytes)
        line = f"{self._what}: {done} of {total}, {units.say_bytes(int(self._rate))}/s"
        if self._rate:
            left_s = max(0, self._total_bytes - self._done_bytes) / self._rate
            line += f", {units.say_seconds(left_s)} left"
        self._say(f"{line}, {name}" if name else line)
