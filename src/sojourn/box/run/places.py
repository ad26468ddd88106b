"""The places of a box that matter to a run: where it writes, what fills up, where linked caches really are.

Only `real` accesses file systems here, and may hang on a dead mount: call it in a child.
"""

from __future__ import annotations

import os

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, NamedTuple

    class Mount(NamedTuple):
        """One line of mountinfo. `kind`: type of file system."""

        point: str
        kind: str
        source: str
        options: str
        line: str

else:
    from collections import namedtuple

    Mount = namedtuple("Mount", "point kind source options line")

# The kernel's own file systems: they hold nothing of a run. tmpfs is real: /tmp and /dev/shm fill up.
UNREAL = frozenset(
    """autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs
    proc pstore ramfs rpc_pipefs securityfs selinuxfs sysfs tracefs""".split()
)
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "TORCH_HOME", "PIP_CACHE_DIR", "MODELSCOPE_CACHE", "WANDB_DIR")


def mount_rows() -> List[Mount]:
    """Every mount this process sees, in order; later ones hide earlier ones at the same point."""
    found = []
    for line in raw.read_entry("/proc/self/mountinfo", 4 << 20)["stdout"].splitlines():
        left, dash, right = line.partition(" - ")
        a, b = left.split(" "), right.split(" ")
        if dash and len(a) >= 6 and len(b) >= 3:
            point = a[4].encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in a[4] else a[4]
            found.append(Mount(point, b[0], b[1], a[5] + "," + b[2], line))
    return found


def mount_of(path: str, rows: List[Mount]) -> Mount | None:
    """The mount that holds an absolute path without links."""
    best = None
    for row in rows:
        if path == row.point or path.startswith(row.point.rstrip("/") + "/"):
            if best is None or len(row.point) >= len(best.point):
                best = row
    return best


def wanted(about: AttemptContext) -> List[str]:
    """Paths whose file systems matter, as written (links not followed), the run's own first."""
    env = environment(about)
    home = os.path.expanduser("~")
    paths = [about.root.path, about.root.attempt(about.attempt), about.root.checkpoints]
    if about.is_here:  # otherwise this is another machine, with only the root of the run
        paths += [env.get("SOJOURN_SCRATCH_DIR", ""), env.get("TMPDIR", ""), "/tmp", "/dev/shm", home, home + "/.cache"]
        paths += [env.get(name, "") for name in _CACHES] + ["/"]
    return list(dict.fromkeys(os.path.abspath(path) for path in paths if path))


def environment(about: AttemptContext) -> Dict[str, str]:
    """The payload's environment while it lives, else ours. For finding folders; never reported."""
    if not about.is_alive:
        return dict(os.environ)
    entries = raw.read_entry("/proc/%d/environ" % about.pid, 256 << 10)["stdout"].split("\0")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def real(path: str) -> str:
    """The path without links. May hang."""
    return os.path.realpath(path)
