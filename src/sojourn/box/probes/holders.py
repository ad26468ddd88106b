"""Processes that have a GPU's device node open, as far as we may look: also those that no tool of the driver lists."""

from __future__ import annotations

import os
import re

from sojourn.box import raw
from sojourn.box.about import About
from sojourn.box.probes import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Set

NAME = "device holders"
_NODE = re.compile(r"^/dev/(?:nvidia\d+|kfd|dri/renderD\d+)$")
_HEAD = "pid start uid state cpu_s comm devices"
_ROWS = 100


def take(about: About) -> Dict[str, raw.Entry]:
    """NAME: one holder a line below a head; `hidden`: processes whose open files we may not see.

    Nothing without cards.
    """
    if not _nodes():
        return {}
    rows, hidden = [_HEAD], 0
    for pid in process.all_pids():
        try:
            devices = _open(pid)
        except OSError:
            hidden += process.read_stat(pid) is not None
            continue
        stat = process.read_stat(pid) if devices else None
        if stat is not None:
            comm = str(raw.read("/proc/%d/comm" % pid, 64)["stdout"]).strip().replace(" ", "_")
            cpu_s = stat.ticks / process.TICKS_PER_S
            words = (pid, stat.start, _uid(pid), stat.state, cpu_s, comm, ",".join(sorted(devices)))
            rows.append("%d %d %d %s %.2f %s %s" % words)
    return {NAME: raw.lines(rows, _ROWS, hidden=hidden)}


def _nodes() -> bool:
    try:
        names = ["/dev/" + name for name in os.listdir("/dev")]
    except OSError:
        return False
    return any(_NODE.match(name) for name in names)


def _open(pid: int) -> Set[str]:
    folder = "/proc/%d/fd" % pid
    found = set()
    for name in os.listdir(folder):
        try:
            link = os.readlink(folder + "/" + name)
        except FileNotFoundError:
            continue
        if _NODE.match(link):
            found.add(link)
    return found


def _uid(pid: int) -> int:
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return -1
