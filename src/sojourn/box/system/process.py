"""One process, as reported by /proc.

A pid alone is ambiguous: pid and start time together identify one process of one boot.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

_PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat:
    """From /proc/PID/stat; `ticks`: of CPU, its own and those of children it waited for."""

    __slots__ = ("state", "ppid", "pgid", "sid", "ticks", "threads", "start", "rss_bytes")

    def __init__(
        self, state: str, ppid: int, pgid: int, sid: int, ticks: int, threads: int, start: int, rss_bytes: int
    ) -> None:
        self.state, self.ppid, self.pgid, self.sid = state, ppid, pgid, sid
        self.ticks, self.threads, self.start, self.rss_bytes = ticks, threads, start, rss_bytes


def read_stat(pid: int | str) -> Stat | None:
    """The process as the kernel shows it now, or None if it (or /proc) does not exist.

    Source: proc(5), fields 3-24 after the command's closing parenthesis, which the command itself may contain
    (2026-11).
    """
    try:
        fd = os.open("/proc/%s/stat" % pid, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    f = text[text.rfind(b")") + 2 :].split()
    if len(f) < 22:
        return None
    ticks = int(f[11]) + int(f[12]) + int(f[13]) + int(f[14])
    return Stat(
        f[0].decode("ascii"), int(f[1]), int(f[2]), int(f[3]), ticks, int(f[17]), int(f[19]), int(f[21]) * _PAGE
    )


def turns(pid: int) -> int:
    """How often a process has been given the CPU; 0 if unknown."""
    try:
        with open("/proc/%d/status" % pid, "rb", buffering=0) as f:
            lines = (f.read(1 << 13) or b"").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if b"voluntary_ctxt_switches:" in line)


def start_of(pid: int) -> int:
    """Start time of a process in ticks since boot (field 22), 0 if unknown."""
    stat = read_stat(pid)
    return stat.start if stat else 0


def is_alive(pid: int, start: int) -> bool:
    """Whether the process started at `start` still runs; a zombie does not. `start` 0: any process with that pid.

    Without /proc the pid alone must suffice.
    """
    if pid <= 0:
        return False
    stat = read_stat(pid)
    if stat is not None:
        return stat.state not in "ZX" and (not start or stat.start == start)
    if os.path.exists("/proc/self/stat"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def children(pid: int) -> List[int] | None:
    """Direct children of all threads of `pid`; None if the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    found: List[int] = []
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return found
    for thread in threads:
        try:
            with open("/proc/%d/task/%s/children" % (pid, thread), "rb", buffering=0) as f:
                found.extend(int(word) for word in f.read(1 << 16).split())
        except FileNotFoundError:
            if not os.path.exists("/proc/self/task/%d/children" % os.getpid()):
                return None
        except (OSError, ValueError):
            continue
    return found


def all_pids() -> List[int]:
    """Every pid that /proc shows; empty without one."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def environ_has(pid: int, entry: bytes) -> bool:
    """Whether the initial environment of `pid` contains `entry` (NAME=value). False if we may not look."""
    try:
        with open("/proc/%d/environ" % pid, "rb", buffering=0) as f:
            return entry in f.read(1 << 20).split(b"\0")
    except OSError:
        return False


def command(pid: int) -> str:
    """The command line of `pid`, cut; "" if there is none."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb", buffering=0) as f:
            return f.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
