"""The payload's first process, from /proc: state, limits, command, environment, open files."""

from __future__ import annotations

import os

from sojourn.box.run import masking
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import cgroup, members, process, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

_STACKS = 5
_GROUPS = 30  # processes whose control groups are looked up
_VALUE = 2000  # characters of one environment entry


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """/proc/PID/{stat,status,limits,cmdline,environ,fd,fd/0}; whether its control group is frozen; for root, the stacks
    of uninterruptible waits.

    Nothing without a recorded payload. If the pid now names another process, only `stat` is given, whose start time
    shows it.
    """
    if not context.pid:
        return {}
    folder = "/proc/%d/" % context.pid
    found = raw.reads((folder + "stat",))
    if not process.is_alive(context.pid, context.start):
        return found
    found.update(raw.reads((folder + "status", folder + "limits")))
    hide = masking.Words(context.root)
    entry = raw.read_entry(folder + "cmdline")
    words = hide.words(entry["stdout"].rstrip("\0").split("\0"))
    found[folder + "cmdline"] = dict(entry, stdout="\0".join(words))
    entry = raw.read_entry(folder + "environ", 256 << 10)
    if not entry["rc"]:
        rows = [row.replace("\n", " ")[:_VALUE] for row in hide.environ(entry["stdout"].split("\0")) if row]
        entry = raw.lines(rows, 2000)
    found[folder + "environ"] = entry
    try:
        found[folder + "fd"] = raw.text("%d\n" % len(os.listdir(folder + "fd")))
        found[folder + "fd/0"] = raw.text(os.readlink(folder + "fd/0") + "\n")
    except OSError as error:
        found[folder + "fd"] = raw.refused(error)
    own = members.below(context.pid)
    found.update(_frozen(own))
    waiting = [pid for pid in own if _waits(pid)]
    found.update(raw.reads(("/proc/%d/stack" % pid for pid in waiting[:_STACKS]), 4 << 10))
    return found


def _frozen(pids: List[int]) -> Dict[str, raw.Entry]:
    """The freezer state of one of these groups: of a frozen one, if there is one."""
    found: Dict[str, raw.Entry] = {}
    for pid in pids[:_GROUPS]:
        groups = cgroup.Groups("/proc/%d" % pid)
        name = groups.v1["freezer"] + "/freezer.state" if "freezer" in groups.v1 else groups.v2 + "/cgroup.events"
        entry = raw.read_entry(name, 4 << 10) if name.startswith("/") else raw.text("", 1)
        is_frozen = "frozen 1" in entry["stdout"] or entry["stdout"].startswith("FR")
        if not entry["rc"] and (is_frozen or not found):
            found = {name: entry}
        if is_frozen:
            break
    return found


def _waits(pid: int) -> bool:
    stat = process.read_stat(pid)
    return stat is not None and stat.state == "D"
