"""The preemption flag: SIGTERM and SIGUSR1 only set it; the Checkpointer saves at the next safe point and exits 75."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Callable

AGAIN = 75  # "run me again": EX_TEMPFAIL of sysexits.h, agreed between training and keeper (docs/json.md)
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

_seen: list[str] = []  # names of signals received; appending is all a handler does
_before: dict[int, Any] = {}
_told_by: list[int] = []  # the process that told its keeper about the handlers; a fork of it retracts nothing
_calling: set[int] = set()  # signals whose earlier handler is being called


def preempted() -> bool:
    """Whether this process was asked to leave. Check it in a long evaluation that takes no `step`."""
    return bool(_seen)


def why() -> str:
    """The first signal received, "" if none."""
    return _seen[0] if _seen else ""


def install() -> bool:
    """Let SIGTERM and SIGUSR1 set the flag; an existing Python handler is still called. Idempotent.

    False outside the main thread, the only one that may set handlers: then only `ask` sets the flag.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    for number in SIGNALS:
        if signal.getsignal(number) is not _on_signal:
            _before[number] = signal.signal(number, _on_signal)
    _tell(True)
    return True


def reclaim() -> None:
    """Handle the signals alone again, if a library took them over and calls our handler from its own.

    Does nothing if they were never handled here.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _before:
            signal.signal(number, _on_signal)


def uninstall() -> None:
    """Restore the previous handlers, unless somebody took the signals over since. Idempotent."""
    if threading.current_thread() is threading.main_thread():
        for number, before in list(_before.items()):
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, signal.SIG_DFL if before is None else before)
            del _before[number]
        _tell(False)


def ask(reason: str) -> None:
    """Set the flag as a signal would: for schedulers that notify in other ways."""
    _seen.append(reason)


def forget() -> None:
    """Clear the flag: a finished training has nothing left to save."""
    _seen.clear()


def _in_child() -> None:
    """A forked child (a worker of a pool) has nothing to save: a SIGTERM meant for it must end it."""
    uninstall()
    forget()


os.register_at_fork(after_in_child=_in_child)


def _tell(hears: bool) -> None:
    """Tell the keeper whether a signal before a time limit is useful here. Never an error: it is an offer."""
    root, attempt = os.environ.get("SOJOURN_RUN_DIR", ""), os.environ.get("SOJOURN_ATTEMPT", "")
    if not root or not attempt.isdigit() or (not hears and _told_by[:1] != [os.getpid()]):
        return
    path = os.path.join(root, "exits", attempt + ".hears")
    try:
        if hears:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            _told_by[:] = [os.getpid()]
        else:
            _told_by.clear()
            os.unlink(path)
    except OSError:
        return


def _on_signal(number: int, frame: FrameType | None) -> None:
    _seen.append(signal.Signals(number).name)
    before: Callable[[int, FrameType | None], Any] | Any = _before.get(number)
    if callable(before) and number not in _calling:  # it may call ours, which was installed first
        _calling.add(number)
        try:
            before(number, frame)
        finally:
            _calling.discard(number)
