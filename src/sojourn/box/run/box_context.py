"""The subject of the probes without a run: the box itself, with the same interface."""

from __future__ import annotations

import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.run.root import Root
from sojourn.box.system import cgroup, machine

_KERNEL_S = 86400.0  # older lines of the kernel's log say nothing about now; lasting faults show on the GPU itself


class Alone(AttemptContext):
    """Every property of an attempt, for a box by itself. `base`: our folder on this box."""

    def __init__(self, base: str) -> None:
        self.root = Root(base)
        self.root.base = self.root.exits = base  # where the write probe and the hogs look
        self.attempt = self.pid = self.start = self.log_bytes = 0
        self.shim = {}
        self.keeper = {}
        self.host = machine.host()
        self.is_here = True
        after_s = max(0.0, time.monotonic() - _KERNEL_S)
        self.launch = {"alone": True, "root": base, "base": base, "kmsg_s": after_s}

    @property
    def is_alive(self) -> bool:
        """There is nothing to be alive."""
        return False

    @property
    def ended_badly(self) -> bool:
        """There is nothing to have ended."""
        return False

    def top(self) -> int:
        """0: no process belongs to an attempt."""
        return 0

    def groups(self) -> cgroup.Groups:
        """Our own: a run started from a login gets the login's, unless its launcher asks for another."""
        return cgroup.Groups()
