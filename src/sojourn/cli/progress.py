"""Progress on stderr, for anything longer than a second: a line updated in place, or occasional lines in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

QUIET_S = 1.0  # a command done by then shows no progress
EVERY_S = 10.0  # minimum time between lines if stderr is not a terminal


class Progress:
    """Call it with a line whenever there is news; call `clear` before printing anything else.

    `show(line)` prints; `show("")` wipes the line from a terminal.
    """

    def __init__(self, show: Callable[[str], None], *, is_terminal: bool) -> None:
        self._show, self._is_terminal = show, is_terminal
        self._began_s = time.monotonic()
        self._shown_s = float("-inf")
        self._waiting = ""
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __call__(self, line: str) -> None:
        """Show `line` now, or when due: the latest line wins, even if no other call follows."""
        with self._lock:
            self._waiting = line
            wait_s = self._due_s() - time.monotonic()
            if wait_s <= 0:
                self._emit()
            elif self._timer is None:
                self._timer = threading.Timer(wait_s, self._later)
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Drop what was not shown yet and wipe the line from a terminal."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
                self._timer = None
            self._waiting = ""
            if self._is_terminal and self._shown_s > float("-inf"):
                self._show("")

    def _due_s(self) -> float:
        if self._is_terminal:
            return max(self._began_s + QUIET_S, self._shown_s + 0.1)
        return max(self._began_s + QUIET_S, self._shown_s + EVERY_S)

    def _later(self) -> None:
        with self._lock:
            self._timer = None
            if self._waiting:
                self._emit()

    def _emit(self) -> None:
        self._shown_s = time.monotonic()
        self._show(self._waiting)
        self._waiting = ""
