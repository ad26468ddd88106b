"""The processes of the attempt, sampled twice: their states, and what each did in between.

Also everybody else's, by name and size only: their arguments are not ours to keep.
"""

from __future__ import annotations

import os
import time

from sojourn.box.run import masking
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import machine, members, process, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

WINDOW_S = 0.4
_TREE_ROWS = 300
_OTHER_ROWS = 40  # the largest processes outside the attempt
_ARGS = 300
TREE = "process tree"
PS = "ps -eo pid,ppid,stat,etimes,rss,args"
_HEAD = "pid ppid start state threads cpu_s cpu_delta_s read_delta write_delta rss_kib pss_kib fds wchan comm fds_max"


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """PS, in the format of ps, and TREE, a table of everything below the attempt's first process."""
    own = _own(context)
    before = {pid: _measures(pid) for pid in own}
    began_s = time.monotonic()
    found = {PS: _ps(context, own)}
    if own:
        time.sleep(max(0.0, WINDOW_S - (time.monotonic() - began_s)))
    rows = [_HEAD]
    for pid in own:
        stat = process.read_stat(pid)
        if stat is not None:
            rows.append(_row(pid, stat, before.get(pid) or {}, _measures(pid)))
    found[TREE] = raw.lines(rows, _TREE_ROWS + 1, window_s=round(time.monotonic() - began_s, 3))
    return found


def _own(context: AttemptContext) -> List[int]:
    """Every process of the attempt: below its shim or payload, and those outside that kept its environment."""
    if not context.is_here:
        return []
    top = context.top()
    found = [pid for pid in members.below(top) if pid != context.shim.get("pid")] if top else []
    marks = (os.fsencode("SOJOURN_RUN_DIR=" + context.root.path), b"SOJOURN_ATTEMPT=%d" % context.attempt)
    seen = set(found) | {context.shim.get("pid"), os.getpid()}
    for pid in process.all_pids():
        if pid not in seen and all(process.environ_has(pid, mark) for mark in marks):
            found.append(pid)
    return found


def _row(pid: int, stat: process.Stat, before: Dict[str, int], now: Dict[str, int]) -> str:
    ticks = process.TICKS_PER_S
    moved = {name: now[name] - before[name] for name in now if name in before}
    words: Tuple[object, ...] = (
        pid,
        stat.ppid,
        stat.start,
        stat.state,
        stat.threads,
        "%.2f" % (stat.ticks / ticks),
        "%.2f" % (moved.get("ticks", 0) / ticks) if moved else "-",
        moved.get("read", "-"),
        moved.get("write", "-"),
        stat.rss_bytes >> 10,
        _pss_kib(pid),
        _count("/proc/%d/fd" % pid),
        _first("/proc/%d/wchan" % pid) or "-",
        _first("/proc/%d/comm" % pid).replace(" ", "_") or "-",
        _fds_max(pid),
    )
    return " ".join(str(word) for word in words)


def _measures(pid: int) -> Dict[str, int]:
    """Its own CPU ticks, and bytes to and from storage; empty if it is gone."""
    stat = process.read_stat(pid)
    if stat is None:
        return {}
    found = {"ticks": stat.ticks}
    for line in raw.read_entry("/proc/%d/io" % pid, 1 << 12)["stdout"].splitlines():
        name, _, value = line.partition(": ")
        if name in ("read_bytes", "write_bytes"):
            found[name[:-6]] = int(value)
    return found


def _pss_kib(pid: int) -> str:
    for line in raw.read_entry("/proc/%d/smaps_rollup" % pid, 1 << 12)["stdout"].splitlines():
        if line.startswith("Pss:"):
            return str(line.split()[1])
    return "-"


def _fds_max(pid: int) -> str:
    """Its own soft limit of open files: a program may have raised the initial one."""
    for line in raw.read_entry("/proc/%d/limits" % pid, 1 << 13)["stdout"].splitlines():
        if line.startswith("Max open files"):
            return str(line.split()[3])
    return "-"


def _ps(context: AttemptContext, own: List[int]) -> raw.Entry:
    rows: List[Tuple[bool, int, str]] = []
    hide = masking.Words(context.root)
    mine = set(own)
    known = {context.shim.get("pid"), context.keeper.get("pid")}
    boot_s = machine.boot_clock_s()
    for pid in process.all_pids():
        stat = process.read_stat(pid)
        if stat is None:
            continue
        is_ours = pid in mine or pid in known
        args = hide.argv(_argv(pid)) if is_ours else ""
        args = args[:_ARGS] or "[%s]" % (_first("/proc/%d/comm" % pid) or "?")
        age_s = max(0, int(boot_s - stat.start / process.TICKS_PER_S))
        line = "%7d %7d %-4s %8d %8d %s" % (pid, stat.ppid, stat.state, age_s, stat.rss_bytes >> 10, args)
        rows.append((is_ours, stat.rss_bytes, line))
    ours = [line for is_ours, _, line in rows if is_ours]
    others = sorted((row for row in rows if not row[0]), key=lambda row: -row[1])
    told = ["    PID    PPID STAT  ELAPSED      RSS COMMAND"] + ours[:_TREE_ROWS]
    told += [line for _, _, line in others[:_OTHER_ROWS]]
    is_cut = len(rows) + 1 > len(told)
    return raw.text("".join(line + "\n" for line in told), processes=len(rows), cut=is_cut)


def _argv(pid: int) -> List[str]:
    words = raw.read_entry("/proc/%d/cmdline" % pid, 1 << 13)["stdout"].split("\0")
    return [" ".join(word.split()) for word in words if word]


def _first(path: str) -> str:
    return str(raw.read_entry(path, 256)["stdout"]).strip()


def _count(path: str) -> str:
    try:
        return str(len(os.listdir(path)))
    except OSError:
        return "-"
