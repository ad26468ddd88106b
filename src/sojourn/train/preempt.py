"""The preemption flag: SIGTERM and SIGUSR1 only set it; the Checkpointer saves at the next safe point and leaves with
75.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Callable

AGAIN = 75  # "run me again": EX_TEMPFAIL of sysexits.h, and the word between training and keeper (docs/json.md)
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

_seen: list[str] = []  # names of signals that came; appending is all a handler does
_before: dict[int, Any] = {}
_calling: set[int] = set()  # signals whose handler of before is being called


def preempted() -> bool:
    """Whether this process was asked to leave. Ask it in a long evaluation that takes no `step`."""
    return bool(_seen)


def why() -> str:
    """The signal that came first, "" while none did."""
    return _seen[0] if _seen else ""


def install() -> bool:
    """Let SIGTERM and SIGUSR1 set the flag; a handler in Python that was there is still called. Idempotent.

    False where this is not the main thread, which alone may set handlers: then only `ask` sets the flag.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    for number in SIGNALS:
        if signal.getsignal(number) is not _on_signal:
            _before[number] = signal.signal(number, _on_signal)
    return True


def reclaim() -> None:
    """Handle the signals alone again, where a library took them over since and calls our handler from its own.

    Nothing where they were never handled here.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _before:
            signal.signal(number, _on_signal)


def uninstall() -> None:
    """Put back what handled the signals before, unless somebody took them over since. Idempotent."""
    if threading.current_thread() is threading.main_thread():
        for number, before in list(_before.items()):
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, signal.SIG_DFL if before is None else before)
            del _before[number]


def ask(reason: str) -> None:
    """Set the flag as a signal would: for schedulers that speak otherwise."""
    _seen.append(reason)


def forget() -> None:
    """Take the flag back: a training that has ended has nothing left to save."""
    _seen.clear()


def _in_child() -> None:
    """A forked child (a worker of a pool) has nothing to save: a SIGTERM meant for it must end it."""
    uninstall()
    forget()


os.register_at_fork(after_in_child=_in_child)


def _on_signal(number: int, frame: FrameType | None) -> None:
    _seen.append(signal.Signals(number).name)
    before: Callable[[int, FrameType | None], Any] | Any = _before.get(number)
    if callable(before) and number not in _calling:  # it may call us, who were there before it
        _calling.add(number)
        try:
            before(number, frame)
        finally:
            _calling.discard(number)
