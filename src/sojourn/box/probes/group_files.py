"""The files of the control groups that bind the payload: memory, CPU, processes, pressure.

Whose group: the payload's while it lives, else its keeper's, else the folders recorded at launch. A call over ssh has
its own group, which says nothing about the run.
"""

from __future__ import annotations

import os

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

_MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.stat"),
    2: ("memory.max", "memory.current", "memory.peak", "memory.stat"),
}
_OOM = {1: "memory.oom_control", 2: "memory.events"}
_CPU = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"), 2: ("cpu.max", "cpu.stat")}
_PRESSURE = ("cpu", "memory", "io")


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """Limits and usage of the group whose limit binds; OOM kills of the payload's own group."""
    groups = context.groups()
    found: Dict[str, raw.Entry] = {}
    version, own = groups.at("memory")
    if own:
        binding = groups.binding_memory() or own
        found.update(_there(binding, _MEMORY[version]))
        found.update(_there(own, (_OOM[version],)))
    if context.launch.get("oom_kill_file") == "/proc/vmstat":
        found["/proc/vmstat"] = _only(raw.read_entry("/proc/vmstat"), "oom_kill")
    version, own = groups.at("cpu")
    if own:
        found.update(_there(groups.binding_cpu() or own, _CPU[version]))
    version, own = groups.at("pids")
    if own:
        found.update(_there(own, ("pids.current", "pids.max")))
    for kind in _PRESSURE:
        path = "%s/%s.pressure" % (groups.pressure_folder(), kind)
        if not groups.pressure_folder() or not os.path.exists(path):
            path = "/proc/pressure/" + kind
        if os.path.exists(path):
            found[path] = raw.read_entry(path)
    return found


def _there(folder: str, names: Tuple[str, ...]) -> Dict[str, raw.Entry]:
    """The existing ones of these files, which depend on the kernel."""
    paths: List[str] = [os.path.join(folder, name) for name in names]
    return raw.reads([path for path in paths if os.path.exists(path)])


def _only(entry: raw.Entry, name: str) -> raw.Entry:
    rows = [line for line in entry["stdout"].splitlines() if line.startswith(name + " ")]
    return dict(entry, stdout="".join(row + "\n" for row in rows))
