"""How often a provider may be asked: one limiter per provider, account and class of endpoints, kept by this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

_lock = threading.Lock()
_kept: dict[tuple[str, ...], Limiter] = {}


class Limiter:
    """Lets a call begin at least `every_s` seconds after the one before, and none before `hold` says."""

    def __init__(
        self,
        every_s: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._every_s, self._now_s, self._sleep = every_s, now_s, sleep
        self._free_s = float("-inf")
        self._lock = threading.Lock()

    def wait(self, until_s: float = float("inf")) -> bool:
        """Block until a call may begin, and count it as begun. False at once where that would be after `until_s`."""
        with self._lock:
            now_s = self._now_s()
            begin_s = max(now_s, self._free_s)
            if begin_s > until_s:
                return False
            self._free_s = begin_s + self._every_s
        if begin_s > now_s:
            self._sleep(begin_s - now_s)
        return True

    def hold(self, wait_s: float) -> None:
        """The provider says: not before `wait_s` seconds from now."""
        with self._lock:
            self._free_s = max(self._free_s, self._now_s() + wait_s)


def limiter(
    provider: str,
    account: str,
    kind: str,
    every_s: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Limiter:
    """The limiter of this process for calls of class `kind`."""
    with _lock:
        return _kept.setdefault((provider, account, kind), Limiter(every_s, now_s, sleep))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks for, None without one. A date counts from the answer's own `Date`, since the two
    clocks may differ.   Source: RFC 9110 section 10.2.3 (rfc-editor.org, checked 2026-11).
    """
    told = headers.get("retry-after", "").strip()
    if told.isdecimal():
        return float(told)
    try:
        seconds = (parsedate_to_datetime(told) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (TypeError, ValueError):
        return None
    return max(0.0, seconds)
