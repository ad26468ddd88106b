"""Limits and usage of the control groups we are in, version 1, version 2 or both mounted (hybrid).

The path of our own group comes from /proc/self/cgroup and the mount points from /proc/self/mountinfo: a container sees
its group as the root of the mount, a batch job sees the whole tree. A limit set further up holds too, so we walk up.
Source: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, scheduler/sched-bwc.rst (2026-11).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Set, Tuple

_UNLIMITED_V1 = 1 << 60  # v1 writes a number near 2**63 where no limit is set


class Groups:
    """Our groups, found once. `root` and `proc` are other folders in tests that replay a recorded machine."""

    def __init__(self, proc: str = "/proc/self") -> None:
        self.proc = proc
        self.v2 = ""  # our folder in the version 2 tree
        self.tops: Dict[str, str] = {}  # folder -> mount point at which the walk up ends
        self.v1: Dict[str, str] = {}  # controller -> our folder
        self._find()

    @property
    def version(self) -> int:
        """Of the memory controller: 1, 2, or 0 where there is none."""
        if "memory" in self.v1:
            return 1
        return 2 if self.v2 and _read(self.v2 + "/memory.current") else 0

    def memory_limit_bytes(self) -> int | None:
        """The tightest memory limit on us or above us; None = none."""
        if "memory" in self.v1:
            limits = [_number(folder + "/memory.limit_in_bytes") for folder in self._up(self.v1["memory"])]
            # With use_hierarchy the kernel itself knows the tightest above a container's root.
            limits.append(_field(self.v1["memory"] + "/memory.stat", "hierarchical_memory_limit"))
            found = [limit for limit in limits if limit is not None and limit < _UNLIMITED_V1]
        else:
            found = [v for v in (_number(folder + "/memory.max") for folder in self._up(self.v2)) if v is not None]
        return min(found) if found else None

    def memory_bytes(self) -> int | None:
        """What our group uses now, page cache included."""
        if "memory" in self.v1:
            return _number(self.v1["memory"] + "/memory.usage_in_bytes")
        return _number(self.v2 + "/memory.current") if self.v2 else None

    def oom_kills(self) -> int | None:
        """How often the kernel killed in our group for memory; where the group does not count, in the whole machine."""
        found = None
        if "memory" in self.v1:
            found = _field(self.v1["memory"] + "/memory.oom_control", "oom_kill")
        elif self.v2:
            found = _field(self.v2 + "/memory.events", "oom_kill")
        return found if found is not None else _field("/proc/vmstat", "oom_kill")

    def cpu_quota(self) -> float | None:
        """The tightest CPU quota on us or above us, in cores; None = none."""
        quotas = []
        if "cpu" in self.v1:
            for folder in self._up(self.v1["cpu"]):
                quota, period = _number(folder + "/cpu.cfs_quota_us"), _number(folder + "/cpu.cfs_period_us")
                if quota and period and quota > 0:
                    quotas.append(quota / period)
        elif self.v2:
            for folder in self._up(self.v2):
                words = _read(folder + "/cpu.max").split()
                if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
                    quotas.append(int(words[0]) / int(words[1]))
        return min(quotas) if quotas else None

    def limits(self) -> Dict[str, Any]:
        """{"version","memory_limit_bytes","cpu_quota"}."""
        return {
            "version": self.version,
            "memory_limit_bytes": self.memory_limit_bytes(),
            "cpu_quota": self.cpu_quota(),
        }

    def _find(self) -> None:
        mounts = list(_mounts(self.proc + "/mountinfo"))
        for line in _read(self.proc + "/cgroup").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for kind, options, root, point in mounts:
                if number == "0" and kind == "cgroup2":
                    self.v2 = self._place(point, root, path)
                elif number != "0" and kind == "cgroup" and set(controllers.split(",")) & options:
                    for controller in controllers.split(","):
                        self.v1[controller] = self._place(point, root, path)

    def _place(self, point: str, root: str, path: str) -> str:
        """Our folder: `path` is seen from the tree's top, the mount shows the tree from `root` on."""
        below = path[len(root) :] if root != "/" and (path + "/").startswith(root.rstrip("/") + "/") else path
        folder = os.path.normpath(point + "/" + below)
        if not os.path.isdir(folder):  # the mount shows only our own group (a container without a namespace of its own)
            folder = point
        self.tops[folder] = point
        return folder

    def _up(self, folder: str) -> Iterator[str]:
        top = self.tops.get(folder, folder)
        while folder:
            yield folder
            if folder == top or folder == "/":
                return
            folder = os.path.dirname(folder)


def _mounts(path: str) -> Iterator[Tuple[str, Set[str], str, str]]:
    """(type, super options, root, mount point) of every cgroup mount. Source: proc(5), mountinfo (2026-11)."""
    for line in _read(path).splitlines():
        left, _, right = line.partition(" - ")
        a, b = left.split(" "), right.split(" ")
        if len(a) >= 5 and len(b) >= 3 and b[0] in ("cgroup", "cgroup2"):
            yield b[0], set(b[2].split(",")), _plain(a[3]), _plain(a[4])


def _plain(word: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, letter)
    return word


def _read(path: str) -> str:
    try:
        with open(path, "rb") as f:
            return f.read(1 << 20).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _read(path)
    return int(text) if text.lstrip("-").isdigit() else None


def _field(path: str, name: str) -> int | None:
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return None
