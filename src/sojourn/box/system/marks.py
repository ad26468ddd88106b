"""Recorded when an attempt starts, because it is evidence later only if known before."""

from __future__ import annotations

import os
import time

from sojourn.box.system import cgroup, disk, kmsg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_LOG_S = 0.05  # of CPU time for the kernel's log; a larger ring is left unread


def marks(root: str, groups: cgroup.Groups) -> Dict[str, Any]:
    """Fields of the `attempt` event besides who and where; null if this machine does not report one.

    uptime_s, kmsg_s (stamp of the kernel's newest line), oom_kill and its source file, groups (their folders), cgroup
    (the memory group, as named in the kernel's log), cpu_stat (throttling so far), room (of the root).
    """
    return {
        "uptime_s": round(time.monotonic(), 6),
        "kmsg_s": kmsg.newest_s(_LOG_S),
        "oom_kill": groups.oom_kills(),
        "oom_kill_file": groups.oom_kill_file(),
        "groups": groups.folders(),
        "cgroup": groups.memory_path,
        "cpu_stat": _throttling(groups.binding_cpu() or groups.at("cpu")[1]),
        "room": disk.room(root),
    }


def _throttling(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "cpu.stat"), "rb", buffering=0) as f:
            lines = (f.read(1 << 14) or b"").decode("ascii", "replace").splitlines()
    except OSError:
        return None
    return "".join(line + "\n" for line in lines if line.startswith("nr_")) or None
