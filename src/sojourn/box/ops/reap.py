"""Ends processes proven to be orphans, each named by pid and start time; proven again just before."""

from __future__ import annotations

import os
import signal
import time

from sojourn.box.call import Box, Refused
from sojourn.box.run import orphans
from sojourn.box.system import machine, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_GRACE_S = 10.0
_LOOK_S = 0.05
_AFTER_S = 5.0  # the kernel needs a moment to dismantle a process with a GPU's memory


def reap(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`victims`: [[pid, start], ...]; `boot_id` of the machine where they were seen; `grace_s` between SIGTERM and
    SIGKILL, 30 at most. Answer: `ended`, `kept`: {"pid","start","why"} each, in the order given.

    Only processes proven orphans now are ended. One that is gone counts as ended, so the call can be repeated. Refused:
    other-boot.
    """
    if request.get("boot_id") != machine.boot_id():
        raise Refused("other-boot", "the machine was restarted since then: their pids are no longer valid")
    judge = orphans.Judge(box.base)
    ended: List[Dict[str, Any]] = []
    kept: List[Dict[str, Any]] = []
    waiting: List[Tuple[int, int]] = []
    for pid, start in [(int(pid), int(start)) for pid, start in request["victims"]]:
        row: Dict[str, Any] = {"pid": pid, "start": start}
        stat = process.read_stat(pid)
        if stat is None or stat.start != start or stat.state in "ZX":
            ended.append(dict(row, why="it was already gone"))
            continue
        whose = judge.whose(pid, stat)
        if whose.kind != "orphan":
            kept.append(dict(row, why=whose.why))
        elif not _send(pid, start, signal.SIGTERM):
            kept.append(dict(row, why="no permission to send it a signal"))
        else:
            waiting.append((pid, start))
    killed = _wait(waiting, max(0.0, min(float(request.get("grace_s") or _GRACE_S), 30.0)))
    for pid, start in killed:
        _send(pid, start, signal.SIGKILL)
    left = _wait(killed, _AFTER_S)
    for pid, start in waiting:
        row = {"pid": pid, "start": start}
        if (pid, start) in left:
            kept.append(dict(row, why="it was told to end but hangs in the kernel"))
        else:
            ended.append(dict(row, why="SIGKILL" if (pid, start) in killed else "SIGTERM"))
    return {"ended": ended, "kept": kept}


def _send(pid: int, start: int, number: int) -> bool:
    """Signal exactly that process: with a descriptor, no other one can take its number in between."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return _send_by_number(pid, start, number)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:  # a kernel before 5.3
        return _send_by_number(pid, start, number)
    try:
        if process.is_alive(pid, start):
            signal.pidfd_send_signal(fd, number)
        return True
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(fd)


def _send_by_number(pid: int, start: int, number: int) -> bool:
    try:
        if process.is_alive(pid, start):
            os.kill(pid, number)
        return True
    except ProcessLookupError:
        return True
    except PermissionError:
        return False


def _wait(waiting: List[Tuple[int, int]], seconds: float) -> List[Tuple[int, int]]:
    """Those still alive when the time is over."""
    until_s = time.monotonic() + seconds
    left = waiting
    while True:
        left = [one for one in left if process.is_alive(*one)]
        if not left or time.monotonic() >= until_s:
            return left
        time.sleep(_LOOK_S)
