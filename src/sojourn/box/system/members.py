"""The processes of an attempt: their usage, and how to reach every one of them."""

from __future__ import annotations

import os
import time

from sojourn.box.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Set, Tuple

_SHARE = 500  # looking for new members may take 1/500 of the keeper's time: 0.2 % of a core


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; False if it is gone."""
    try:
        with open("/proc/%d/status" % pid, "rb") as f:
            lines = f.read(8192).splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(b"SigCgt:")]
    return any(mask >> (number - 1) & 1 for mask in masks)


class Members:
    """All processes below `top`, refreshed now and then. `top` itself counts unless it is the shim."""

    def __init__(self, top: int, is_shim: bool) -> None:
        self.top = top
        self.is_shim = is_shim
        self._pids: List[int] = []
        self._next_look_s = 0.0

    def usage(self) -> Dict[str, float] | None:
        """{"cpu_s","rss_bytes","threads"} of all together; None if /proc reports nothing.

        cpu_s counts the members' own use, and that of ended ones they waited for.
        """
        began_s = time.monotonic()
        if began_s >= self._next_look_s:
            self._pids = below(self.top)
            self._next_look_s = began_s + _SHARE * (time.monotonic() - began_s)
        ticks = rss_bytes = threads = 0
        for pid in self._pids:
            stat = process.read_stat(pid)
            if stat is None:
                self._next_look_s = 0.0  # one ended: its children may have moved
                continue
            ticks += stat.ticks
            if stat.state not in "ZX" and (pid != self.top or not self.is_shim):
                rss_bytes += stat.rss_bytes
                threads += stat.threads
        if not threads:
            return None
        return {"cpu_s": ticks / process.TICKS_PER_S, "rss_bytes": rss_bytes, "threads": threads}


def below(top: int) -> List[int]:
    """`top` and all its descendants."""
    found, seen = [top], {top}
    for pid in found:  # grows while we walk
        below_it = process.children(pid)
        if below_it is None:
            return _below_by_scan(top)
        for child in below_it:
            if child not in seen:
                seen.add(child)
                found.append(child)
    return found


def _below_by_scan(top: int) -> List[int]:
    parents: Dict[int, List[int]] = {}
    for pid in process.all_pids():
        stat = process.read_stat(pid)
        if stat:
            parents.setdefault(stat.ppid, []).append(pid)
    found = [top]
    for pid in found:
        found.extend(parents.get(pid, ()))
    return found


def of_attempt(root: str, attempt: int, sid: int, spare: Set[int]) -> List[int]:
    """Every living process of an attempt in all of /proc, whatever its parent: by session, by ancestry from us, or by
    the payload's initial variables. `spare`: pids that never belong to it (keeper, shim)."""
    marks = (os.fsencode("SOJOURN_RUN_DIR=" + root), b"SOJOURN_ATTEMPT=%d" % attempt)
    mine = set(below(os.getpid())) - {os.getpid()}
    found = []
    for pid in process.all_pids():
        if pid in spare or pid == os.getpid():
            continue
        stat = process.read_stat(pid)
        if stat is None or stat.state in "ZX":
            continue
        if (sid > 0 and stat.sid == sid) or pid in mine or all(process.environ_has(pid, mark) for mark in marks):
            found.append(pid)
    return found


def holders(path: str) -> List[int]:
    """Other living processes that have the file `path` open: those that inherited the payload lock."""
    try:
        wanted = os.stat(path)
    except OSError:
        return []
    found = []
    for pid in process.all_pids():
        if pid != os.getpid() and _has_open(pid, (wanted.st_dev, wanted.st_ino)):
            found.append(pid)
    return found


def eldest_holder(path: str) -> Tuple[int, int]:
    """(pid, start time) of the holder that started first; (0, 0) if there is none. One that ends now is skipped."""
    starts = [(process.start_of(pid), pid) for pid in holders(path)]
    start, pid = min((one for one in starts if one[0]), default=(0, 0))
    return pid, start


def _has_open(pid: int, wanted: Tuple[int, int]) -> bool:
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            there = os.stat(folder + "/" + name)
        except OSError:
            continue
        if (there.st_dev, there.st_ino) == wanted:
            return True
    return False


def send(pids: List[int], number: int) -> int:
    """Send a signal to each; returns how many got it."""
    took = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            took += 1
        except (ProcessLookupError, PermissionError):
            continue
    return took


def send_group(pgid: int, number: int) -> None:
    """Send a signal to a process group; one that is gone is fine. Never to our own."""
    if pgid > 1 and pgid != os.getpgrp():
        try:
            os.killpg(pgid, number)
        except (ProcessLookupError, PermissionError):
            return
