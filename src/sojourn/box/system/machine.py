"""Which machine and which boot this is."""

from __future__ import annotations

import os
import time

from sojourn.box.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def boot_id() -> str:
    """The kernel's boot id; "" if hidden."""
    return _read("/proc/sys/kernel/random/boot_id")


def pid1_start() -> int:
    """Start time of PID 1: a restarted container keeps the host's boot id, but not this."""
    return process.start_of(1)


def host() -> str:
    """The machine's own name."""
    return os.uname().nodename


def identity() -> Dict[str, Any]:
    """{"boot_id","pid1_start","host"}: if equal, a process recorded with it may still live."""
    return {"boot_id": boot_id(), "pid1_start": pid1_start(), "host": host()}


def memory_bytes() -> int | None:
    """Memory of the whole machine (a container sees its host's)."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def boot_clock_s() -> float:
    """Seconds since boot, including suspended time: the clock of the start times in /proc, immune to clock jumps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def age_s(start: int) -> float | None:
    """Seconds since a process with that start time started; None for start 0."""
    return max(0.0, boot_clock_s() - start / process.TICKS_PER_S) if start else None


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as f:
            return f.read(1 << 16).decode("ascii", "replace").strip()
    except OSError:
        return ""
