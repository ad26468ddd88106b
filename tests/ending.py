"""End every process that carries a mark in its environment: what a test started, and what that started in turn."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from sojourn.box.system.process import is_alive, read_stat

PATIENCE_S = 60.0


def processes() -> list[int]:
    """Every process but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def environment(pid: int) -> list[bytes]:
    """Its variables; [] of one that is gone or ending: its memory goes before its open files and their locks."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def carriers(mark: str) -> list[int]:
    """Every process, this one aside, whose environment holds `mark`, as `HOME=/folder`."""
    return [pid for pid in processes() if mark.encode() in environment(pid)]


def end_all(mark: str) -> None:
    """Kill them, those too that one of them starts meanwhile, and wait until each has let go of its files."""
    deadline_s = time.monotonic() + PATIENCE_S
    killed: dict[int, int] = {}
    while (found := carriers(mark)) or any(is_alive(pid, start) for pid, start in killed.items()):
        assert time.monotonic() < deadline_s, f"still there: {found or killed}"
        for pid in found:
            stat = read_stat(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if stat is not None:
                killed[pid] = stat.start
        time.sleep(0.02)
