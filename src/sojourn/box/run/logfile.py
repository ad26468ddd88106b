"""The log of an attempt.

The payload writes to it directly, so it grows as long as the payload lives.
"""

from __future__ import annotations

import os
import time

from sojourn.box.run.ledger import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

LIMIT_BYTES = 256 << 20  # then the log becomes N.log.1 and restarts; one old log is kept
_PART = 8 << 20


class Log:
    """Watches one log's size and age, and keeps it within `limit_bytes` twice."""

    def __init__(self, path: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.rotated_bytes = _size(path + ".1")
        self._size = 0
        self._moved_s = time.monotonic()
        self._retry_s = 0.0

    def look(self) -> Tuple[int, float]:
        """(bytes written so far, seconds since the last ones by our own clock). Rotates at the limit."""
        now = time.monotonic()
        size = _size(self.path)
        if size != self._size:
            self._size, self._moved_s = size, now
        if size > self.limit_bytes and now >= self._retry_s:
            self._rotate(now)
        return self._size + self.rotated_bytes, max(0.0, now - self._moved_s)

    def _rotate(self, now: float) -> None:
        """Copy, then cut: the payload's descriptor appends, so it continues at the start of the same file.

        Anything written between the last copied byte and the cut is lost; we copy until nothing is new, so that is
        microseconds' worth. On a full disk the log keeps growing, and this is retried in a minute.
        """
        aside = self.path + ".1.tmp"
        try:
            with open(self.path, "r+b", buffering=0) as log, open(aside, "wb", buffering=0) as out:
                copied = 0
                while True:
                    moved = os.sendfile(out.fileno(), log.fileno(), copied, _PART)
                    if not moved:
                        break
                    copied += moved
                os.rename(aside, self.path + ".1")
                os.ftruncate(log.fileno(), 0)
        except OSError as error:
            complain("log rotation: %s" % error)
            self._retry_s = now + 60
            try:
                os.unlink(aside)
            except OSError:
                return
            return
        self.rotated_bytes += copied
        self._size = _size(self.path)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
