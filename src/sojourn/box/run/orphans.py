"""The owner of a process: a living run of ours, a finished one, the system, or unknown.

Only proof that nobody waits for a process any more makes it an orphan; being idle, or unlisted by a tool, proves
nothing. Ownership can change at any moment, so it is checked again just before ending one.
"""

from __future__ import annotations

import os
import re

from sojourn.box.run.history import History
from sojourn.box.run.root import Root
from sojourn.box.run.want import pulse
from sojourn.box.system import machine, process, raw
from sojourn.wire import events, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, NamedTuple

    class Whose(NamedTuple):
        """`kind`: run (of a living run of ours), orphan, system, unproven. `why`: the proof, or what it lacks."""

        kind: str
        why: str
        run: str = ""
        attempt: int = 0

else:
    from collections import namedtuple

    Whose = namedtuple("Whose", "kind why run attempt", defaults=("", 0))

# They hold every GPU and belong there. Source: NVIDIA driver, DCGM and MPS documentation (2026-11).
_SYSTEM = re.compile(
    r"^(?:nvidia-persiste|nv-?hostengine|nv-fabricmanag|nvidia-fabricm|nvidia-smi|nvidia-cuda-mps|dcgm|Xorg|Xwayland"
    r"|gnome-shell|kwin|sddm|gdm|nvtop|nvitop|gpustat)"
)
_REAPERS = re.compile(r"^(?:systemd|init|tini|dumb-init|s6-svscan|runsvdir|containerd-shim|conmon|catatonit)")
_WORKER = re.compile(rb"multiprocessing\.spawn import spawn_main|--multiprocessing-fork|multiprocessing\.forkserver")
_OURS = re.compile(rb"/keepers/keeper-[0-9a-f]{64}\.pyz\0")
_RUN, _ATTEMPT = b"SOJOURN_RUN_DIR=", b"SOJOURN_ATTEMPT="


class Judge:
    """Checks one process after the other; remembers what it read about runs. `base`: our folder on this box."""

    def __init__(self, base: str) -> None:
        self.base = os.path.realpath(base)
        self._lives: Dict[str, Whose] = {}
        self._above = _above(os.getpid())

    def whose(self, pid: int, stat: process.Stat) -> Whose:
        """By what the kernel shows of it now; if we may not inspect it, unproven."""
        comm = comm_of(pid)
        if pid in self._above or _OURS.search(_read(pid, "cmdline")):
            return Whose("run", "it belongs to sojourn and is at work")
        try:
            uid = os.stat("/proc/%d" % pid).st_uid
        except OSError:
            return Whose("unproven", "it is gone")
        marks = _marks(pid)
        if marks is None:
            return Whose("system" if _SYSTEM.match(comm) else "unproven", "another user's process: not judged")
        path, attempt = marks
        if path:
            return self._of_run(path, attempt, uid)
        if _SYSTEM.match(comm):
            return Whose("system", "a service of the driver or of the desktop")
        if uid != os.getuid():
            return Whose("unproven", "another user's process: not judged")
        return _worker(pid, stat) or Whose(
            "unproven", "nothing proves that it is no longer needed: " + _hints(pid, stat)
        )

    def _of_run(self, path: str, attempt: int, uid: int) -> Whose:
        root = Root(path)
        if os.path.realpath(root.base) != self.base or not names.is_root(root.id):
            return Whose("unproven", "a run of another folder: %s" % path)
        try:
            owner = os.stat(root.path).st_uid
        except FileNotFoundError:
            owner = os.stat(os.path.dirname(root.path)).st_uid if os.path.isdir(os.path.dirname(root.path)) else -1
        if owner != uid:
            return Whose("unproven", "the run %s belongs to another user" % root.id, root.id, attempt)
        key = "%s %d" % (path, attempt)
        if key not in self._lives:
            self._lives[key] = _life(root, attempt)
        return self._lives[key]


def comm_of(pid: int) -> str:
    """The kernel's name for it, without spaces."""
    return str(raw.read_entry("/proc/%d/comm" % pid, 64)["stdout"]).strip().replace(" ", "_") or "?"


def run_of(pid: int) -> str:
    """The id of the run in its initial environment, "" if none or if we may not look."""
    marks = _marks(pid)
    return os.path.basename(marks[0]).replace(" ", "_") if marks else ""


def _life(root: Root, attempt: int) -> Whose:
    """Whether the attempt may still live, by its own records."""

    def told(kind: str, why: str) -> Whose:
        return Whose(kind, why, root.id, attempt)

    if not os.path.exists(root.path):
        return told("orphan", "the folder of its run, %s, was removed" % root.id)
    history = _history(root)
    if not history.attempt or attempt > history.attempt:
        return told("run", "attempt %d of %s is just beginning" % (attempt, root.id))
    if attempt < history.attempt:
        return told("orphan", "attempt %d of %s is over: attempt %d followed" % (attempt, root.id, history.attempt))
    if history.begun.get("host") not in (None, machine.host()):
        return told("unproven", "attempt %d of %s ran on another machine" % (attempt, root.id))
    if not history.ended:
        return told("run", "attempt %d of %s is alive by its records" % (attempt, root.id))
    if not history.is_sealed and pulse(root) in ("alive", "unknown"):
        return told("run", "attempt %d of %s has ended, but its keeper is still working" % (attempt, root.id))
    ended = (attempt, root.id, history.ended.get("at"), history.state)
    return told("orphan", "attempt %d of %s ended at %s (%s)" % ended)


def _history(root: Root) -> History:
    history = History()
    try:
        with open(root.events, "rb") as f:
            for line in f:
                if b'"kind":"beat"' not in line[:200]:
                    event = events.parse_line(line)
                    if event is not None:
                        history.add(event)
    except OSError:
        return history
    return history


def _worker(pid: int, stat: process.Stat) -> Whose | None:
    """A worker of Python's multiprocessing is started by another Python and works for it alone."""
    if not _WORKER.search(_read(pid, "cmdline")):
        return None
    parent = comm_of(stat.ppid)
    try:
        exe = os.readlink("/proc/%d/exe" % stat.ppid)
    except OSError:
        exe = ""
    if (stat.ppid != 1 and not _REAPERS.match(parent)) or not exe or "python" in os.path.basename(exe):
        return None
    return Whose(
        "orphan", "a multiprocessing worker whose parent is gone: it hangs below %s (%d)" % (parent, stat.ppid)
    )


def _hints(pid: int, stat: process.Stat) -> str:
    """Facts that may help a person to judge."""
    parent = "its parent is %s (%d)" % (comm_of(stat.ppid), stat.ppid)
    if process.start_of(stat.sid) and stat.sid != pid:
        return parent + ", and its session is still alive"
    return parent


def _marks(pid: int) -> tuple[str, int] | None:
    """(root, attempt) of the run in its initial environment, ("", 0) without; None: we may not look."""
    try:
        with open("/proc/%d/environ" % pid, "rb", buffering=0) as f:
            entries = (f.read(1 << 20) or b"").split(b"\0")
    except OSError:
        return None
    path = next((os.fsdecode(one[len(_RUN) :]) for one in entries if one.startswith(_RUN)), "")
    number = next((one[len(_ATTEMPT) :] for one in entries if one.startswith(_ATTEMPT)), b"0")
    return path, int(number) if number.isdigit() else 0


def _above(pid: int) -> List[int]:
    found = [pid]
    while len(found) < 100:
        stat = process.read_stat(found[-1])
        if stat is None or stat.ppid <= 1:
            break
        found.append(stat.ppid)
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        with open("/proc/%d/%s" % (pid, name), "rb", buffering=0) as f:
            return f.read(4096) or b""
    except OSError:
        return b""
