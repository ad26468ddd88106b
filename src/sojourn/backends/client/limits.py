"""How often a provider may be asked: one limiter per provider, account and class of endpoints, for all processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime

from sojourn.store import places, private

MOST_S = 3600.0  # nobody asks for a longer pause

_lock = threading.Lock()
_kept: dict[str, Limiter] = {}


class Limiter:
    """Lets a call begin at least `every_s` seconds after the one before, and none before `hold` says.

    `path`: a file in which all processes of this machine keep when the next call may begin. Where it cannot be used,
    each keeps that for itself.
    """

    def __init__(
        self,
        every_s: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        path: str = "",
    ) -> None:
        self._every_s, self._now_s, self._sleep, self._path = every_s, now_s, sleep, path
        self._free_s = float("-inf")
        self._lock = threading.Lock()

    def wait(self, until_s: float = float("inf")) -> bool:
        """Block until a call may begin, and count it as begun. False at once where that would be after `until_s`."""
        with self._shared():
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
        with self._shared():
            self._free_s = max(self._free_s, self._now_s() + wait_s)

    @contextlib.contextmanager
    def _shared(self) -> Iterator[None]:
        """While inside, `_free_s` is that of all processes, and no other one changes it."""
        with self._lock, contextlib.ExitStack() as stack:
            fd = -1
            with contextlib.suppress(OSError):
                if self._path:
                    private.folder(os.path.dirname(self._path))
                    fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                    stack.callback(os.close, fd)
                    fcntl.flock(fd, fcntl.LOCK_EX)
                    self._free_s = max(self._free_s, self._told(os.pread(fd, 64, 0)))
            yield
            with contextlib.suppress(OSError):
                if fd >= 0:
                    os.pwrite(fd, f"{self._free_s:<63.6f}\n".encode(), 0)

    def _told(self, text: bytes) -> float:
        """What the file says. A time that nobody asks for is from before this machine's start."""
        try:
            free_s = float(text)
        except ValueError:
            return float("-inf")
        return free_s if free_s <= self._now_s() + MOST_S else float("-inf")


def limiter(
    provider: str,
    account: str,
    kind: str,
    every_s: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Limiter:
    """The limiter for calls of class `kind`. `account`: its address and key, of which only a digest is kept."""
    digest = hashlib.sha256(f"{provider} {account} {kind}".encode()).hexdigest()[:32]
    with _lock:
        known = _kept.get(digest)
        if known is None:
            path = os.path.join(places.state_dir(), "limits", digest)
            known = _kept[digest] = Limiter(every_s, now_s, sleep, path)
        return known


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
