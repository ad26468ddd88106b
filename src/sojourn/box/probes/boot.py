"""Which boot and which container this is, by what changes when either restarts."""

from __future__ import annotations

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import machine, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """The boot id, the start of PID 1, the host's name, the uptime (in a container the host's)."""
    found = raw.reads(("/proc/sys/kernel/random/boot_id", "/proc/1/stat", "/proc/uptime"))
    found["hostname"] = raw.text(machine.host() + "\n")
    return found
