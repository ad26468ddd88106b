"""Processes with a GPU's device node open, as far as we may look, including those no driver tool lists; and leftovers
of our runs, whether or not they hold a GPU. Each with its owner and the proof.
"""

from __future__ import annotations

import os
import re

from sojourn.box.run import orphans
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import machine, process, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

NAME = "device holders"
_NODE = re.compile(r"^/dev/(?:nvidia\d+|kfd|dri/renderD\d+)$")
_COLUMNS = ("pid", "start", "uid", "state", "cpu_s", "comm", "devices", "ppid", "age_s", "kind", "run", "why")
_ROWS = 100
_MARK = b"\0SOJOURN_RUN_DIR="


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """NAME: one process per line below a head; "-" for missing values. `hidden`: processes whose open files we may not
    see; `nodes`: number of device nodes. Nothing without GPUs or leftovers.
    """
    found, hidden = look(context.root.base)
    nodes = _nodes()
    if not nodes and not found:
        return {}
    rows = [" ".join(_COLUMNS)]
    for one in found:
        rows.append(" ".join(str(one[name]) if one[name] not in ("", []) else "-" for name in _COLUMNS))
    return {NAME: raw.lines(rows, _ROWS, hidden=hidden, nodes=nodes)}


def look(base: str) -> Tuple[List[Dict[str, Any]], int]:
    """(every living holder of a GPU, and every orphan, by _COLUMNS; number of processes we may not inspect)."""
    judge = orphans.Judge(base)
    found, hidden, has_nodes = [], 0, bool(_nodes())
    boot_s = machine.boot_clock_s()
    for pid in process.all_pids():
        devices: Set[str] = set()
        if has_nodes:
            try:
                devices = _open(pid)
            except OSError:
                hidden += process.read_stat(pid) is not None
        if not devices and not _is_of_a_run(pid):
            continue
        one = _told(judge, pid, devices, boot_s)
        if one is not None and (devices or one["kind"] == "orphan"):
            found.append(one)
    return found, hidden


def _told(judge: orphans.Judge, pid: int, devices: Set[str], boot_s: float) -> Dict[str, Any] | None:
    stat = process.read_stat(pid)
    if stat is None or stat.state in "ZX":
        return None
    whose = judge.whose(pid, stat)
    return {
        "pid": pid,
        "start": stat.start,
        "uid": _uid(pid),
        "state": stat.state,
        "cpu_s": "%.2f" % (stat.ticks / process.TICKS_PER_S),
        "comm": orphans.comm_of(pid),
        "devices": ",".join(sorted(devices)),
        "ppid": stat.ppid,
        "age_s": "%.0f" % max(0.0, boot_s - stat.start / process.TICKS_PER_S),
        "kind": whose.kind,
        "run": whose.run,
        "why": whose.why,
    }


def _nodes() -> int:
    """Device nodes of GPUs; those in a container without a driver count as well."""
    try:
        names = ["/dev/" + name for name in os.listdir("/dev")]
        names += ["/dev/dri/" + name for name in os.listdir("/dev/dri")] if "/dev/dri" in names else []
    except OSError:
        return 0
    return sum(1 for name in names if _NODE.match(name))


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


def _is_of_a_run(pid: int) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb", buffering=0) as f:
            return _MARK in b"\0" + (f.read(1 << 20) or b"")
    except OSError:
        return False


def _uid(pid: int) -> int:
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return -1
