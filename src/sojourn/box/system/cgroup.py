"""Limits and usage of our control groups, version 1, version 2 or both mounted (hybrid).

The path of our own group comes from /proc/self/cgroup and the mount points from /proc/self/mountinfo: a container sees
its group as the root of the mount, a batch job sees the whole tree. A limit set higher up holds too, so we walk up.
Source: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, scheduler/sched-bwc.rst (2026-11).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

_UNLIMITED_V1 = 1 << 60  # v1 shows a number near 2**63 if no limit is set
_V2_FILES = {"memory": "/memory.current", "cpu": "/cpu.stat", "pids": "/pids.current"}  # exists = it controls us


class Groups:
    """The groups of one process, ours by default, found once.

    `proc`: its folder in /proc, or a recorded machine's. `folders`: what `folders()` returned for a process that has
    since ended; its groups are used where they still exist.
    """

    def __init__(self, proc: str = "/proc/self", folders: Mapping[str, str] | None = None) -> None:
        self.proc = proc
        self.v2 = ""  # our folder in the version 2 tree
        self.tops: Dict[str, str] = {}  # folder -> mount point where the walk up ends
        self.v1: Dict[str, str] = {}  # controller -> our folder
        self.memory_path = ""  # our memory group, by the kernel's name
        self._find()
        if folders is not None:
            self._go_to(folders)

    @property
    def version(self) -> int:
        """Of the memory controller: 1, 2, or 0 if there is none."""
        if "memory" in self.v1:
            return 1
        return 2 if self.v2 and _read(self.v2 + "/memory.current") else 0

    def memory_limit_bytes(self) -> int | None:
        """The tightest memory limit on us or above us; None = none."""
        found = [limit for limit, _ in self._memory_limits()]
        if "memory" in self.v1:
            # With use_hierarchy the kernel itself knows the tightest limit above a container's root.
            known = _field(self.v1["memory"] + "/memory.stat", "hierarchical_memory_limit")
            found += [known] if known is not None and known < _UNLIMITED_V1 else []
        return min(found) if found else None

    def binding_memory(self) -> str:
        """The folder with the tightest memory limit, ours or one above; "" without a limit."""
        return min(self._memory_limits(), default=(0, ""))[1]

    def memory_bytes(self) -> int | None:
        """What our group uses now, including page cache."""
        if "memory" in self.v1:
            return _number(self.v1["memory"] + "/memory.usage_in_bytes")
        return _number(self.v2 + "/memory.current") if self.v2 else None

    def oom_kills(self) -> int | None:
        """The kernel's out-of-memory kills in our group; if the group does not count them, in the whole machine."""
        return _field(self.oom_kill_file(), "oom_kill")

    def oom_kill_file(self) -> str:
        """The file with that count: our group's, else /proc/vmstat."""
        path = ""
        if "memory" in self.v1:
            path = self.v1["memory"] + "/memory.oom_control"
        elif self.v2:
            path = self.v2 + "/memory.events"
        return path if path and _field(path, "oom_kill") is not None else "/proc/vmstat"

    def cpu_quota(self) -> float | None:
        """The tightest CPU quota on us or above us, in cores; None = none."""
        found = [quota for quota, _ in self._cpu_quotas()]
        return min(found) if found else None

    def binding_cpu(self) -> str:
        """The folder with the tightest CPU quota, ours or one above; "" without a quota."""
        return min(self._cpu_quotas(), default=(0.0, ""))[1]

    def at(self, controller: str) -> Tuple[int, str]:
        """(version, our folder) of "memory", "cpu" or "pids"; (0, "") if the kernel does not control it for us."""
        if controller in self.v1:
            return 1, self.v1[controller]
        if self.v2 and os.path.exists(self.v2 + _V2_FILES[controller]):
            return 2, self.v2
        return 0, ""

    def folders(self) -> Dict[str, str]:
        """Our folders by controller, "v2" for the version 2 tree: they find the groups again after we have ended."""
        found = {name: self.v1[name] for name in _V2_FILES if name in self.v1}
        return dict(found, v2=self.v2) if self.v2 else found

    def pressure_folder(self) -> str:
        """Our folder in the version 2 tree, if it reports our own pressure; "" at its top: that is the host's."""
        return self.v2 if self.v2 and os.path.exists(self.v2 + "/cgroup.type") else ""

    def _memory_limits(self) -> List[Tuple[int, str]]:
        if "memory" in self.v1:
            rows = [(_number(f + "/memory.limit_in_bytes"), f) for f in self._up(self.v1["memory"])]
        else:
            rows = [(_number(f + "/memory.max"), f) for f in self._up(self.v2)]
        return [(limit, folder) for limit, folder in rows if limit is not None and limit < _UNLIMITED_V1]

    def _cpu_quotas(self) -> List[Tuple[float, str]]:
        quotas = []
        if "cpu" in self.v1:
            for folder in self._up(self.v1["cpu"]):
                quota, period = _number(folder + "/cpu.cfs_quota_us"), _number(folder + "/cpu.cfs_period_us")
                if quota and period and quota > 0:
                    quotas.append((quota / period, folder))
        elif self.v2:
            for folder in self._up(self.v2):
                words = _read(folder + "/cpu.max").split()
                if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
                    quotas.append((int(words[0]) / int(words[1]), folder))
        return quotas

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
            if "memory" in controllers.split(",") or (number == "0" and not self.memory_path):
                self.memory_path = path
            for kind, options, root, point in mounts:
                if number == "0" and kind == "cgroup2":
                    self.v2 = self._place(point, root, path)
                elif number != "0" and kind == "cgroup" and set(controllers.split(",")) & options:
                    for controller in controllers.split(","):
                        self.v1[controller] = self._place(point, root, path)

    def _go_to(self, folders: Mapping[str, str]) -> None:
        points = set(self.tops.values())
        there = {name: folder for name, folder in folders.items() if os.path.isdir(folder)}
        for folder in there.values():
            above = [point for point in points if (folder + "/").startswith(point.rstrip("/") + "/")]
            self.tops[folder] = max(above, key=len, default=folder)
        self.v2 = there.pop("v2", "")
        self.v1 = there

    def _place(self, point: str, root: str, path: str) -> str:
        """Our folder: `path` starts at the tree's top, the mount shows the tree from `root` on."""
        below = path[len(root) :] if root != "/" and (path + "/").startswith(root.rstrip("/") + "/") else path
        folder = os.path.normpath(point + "/" + below)
        if not os.path.isdir(folder):  # the mount shows only our own group (a container without a separate namespace)
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
