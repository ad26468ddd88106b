"""Waiting without polling: for signals, the shim's pipe, the end of a process that is not our child."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Set

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2), since Linux 3.4
_SYS_PIDFD_OPEN = 434  # the same on every architecture but alpha; since Linux 5.3


class Wake:
    """Waits for signals and descriptors. One per process; the handlers stay until it ends.

    Signals interrupt only the wait, which returns their numbers, so the keeper acts on them between two steps.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # our parent may have blocked some
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, _nothing)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def watch(self, fd: int) -> None:
        """Also wake when `fd` is readable or closed by the other side."""
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`; call before closing it."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float) -> Set[int]:
        """Wait for anything, at most `timeout_s`; returns the numbers of received signals (a descriptor adds none)."""
        ready = self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))
        if not any(fd == self._read for fd, _ in ready):
            return set()
        try:
            return set(os.read(self._read, 512))
        except BlockingIOError:
            return set()


def _nothing(number: int, frame: object) -> None:
    """The wake-up descriptor is written only if a handler exists."""


def become_subreaper() -> bool:
    """Orphans below us become our children, so the payload can be waited for after its shim is killed.

    False if unavailable (a Python without ctypes, an old kernel); everything else works without it.
    """
    libc = c_library()
    return libc is not None and libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when `pid` ends; -1 if the kernel has none or the process is gone."""
    known = getattr(os, "pidfd_open", None)  # since Python 3.9
    if known is not None:
        try:
            return int(known(pid))
        except OSError:
            return -1
    libc = c_library()
    fd = libc.syscall(_SYS_PIDFD_OPEN, pid, 0) if libc is not None else -1
    if fd >= 0:
        os.set_inheritable(fd, False)
    return int(fd)


def c_library() -> Any:
    """Calls that Python lacks; errors by ctypes.get_errno. None in a Python without ctypes."""
    try:
        import ctypes
    except ImportError:
        return None
    return ctypes.CDLL(None, use_errno=True)
