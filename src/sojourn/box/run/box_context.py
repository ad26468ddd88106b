"""What the probes ask about where there is no run: the box itself, by the same questions."""

from __future__ import annotations

import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.run.root import Root
from sojourn.box.system import cgroup, machine

_KERNEL_S = 86400.0  # an older line of the kernel's log says nothing about now; what lasts, the card itself still says


class Alone(AttemptContext):
    """Every question of an attempt, answered as it is where there is none. `base`: our folder on this box."""

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
        """There is nothing that could be."""
        return False

    @property
    def ended_badly(self) -> bool:
        """There is nothing that could have."""
        return False

    def top(self) -> int:
        """0: no process is the attempt's."""
        return 0

    def groups(self) -> cgroup.Groups:
        """Our own: what a login has is what a run started from it gets, unless its launcher asks for another."""
        return cgroup.Groups()
