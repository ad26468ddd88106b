"""The size and load of the machine: cores, load, memory. In a container these are the host's."""

from __future__ import annotations

import os

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """/proc/loadavg, /proc/meminfo, `nproc` (cores present), `affinity` (cores the payload, or we, may use)."""
    found = raw.reads(("/proc/loadavg", "/proc/meminfo"))
    found["nproc"] = raw.text("%d\n" % (os.cpu_count() or 1))
    try:
        found["affinity"] = raw.text("%d\n" % len(os.sched_getaffinity(context.pid if context.is_alive else 0)))
    except (AttributeError, OSError):
        pass
    return found
