"""What this box is: the answer to the first call, and the facts for preflight."""

from __future__ import annotations

import os
import shutil
import sys

from sojourn.box.call import Box, Refused
from sojourn.box.queue.book import Book, find_queue
from sojourn.box.run import copying, want
from sojourn.box.supervise import avoided
from sojourn.box.system import cgroup, compiled, disk, gpu, identity, machine, umask
from sojourn.wire import manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


_LOOK_S = 2.0  # for bases on other disks: `survey` takes its time


def hello(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Facts of the box. `run`, `queue`: also the `argv` to start its keeper, whether or not it exists; for an existing
    queue, its `lanes`. `tiers`: where disks that last are mounted; bases found there are recorded as siblings.

    Refused: "keeper-damaged" if this very file does not match its name.
    """
    name = os.path.basename(box.keeper)
    if name != "keeper-%s.pyz" % manifest.sha256_file(box.keeper)[1]:
        raise Refused("keeper-damaged", "%s is not what its name says" % box.keeper, keeper=box.keeper)
    compiled.keep(box.keeper)
    os.makedirs(box.base, exist_ok=True)
    for name in ("keepers", "snapshots", "staging", "queues", "runs"):
        umask.close(box.under(name))
    beside, _ = identity.look_through([str(tier) for tier in request.get("tiers") or ()], _LOOK_S)
    identity.register(box.base, beside)
    home = os.path.expanduser("~")
    groups = cgroup.Groups()
    uname = os.uname()
    facts = {
        "base": box.base,
        "box": identity.box_id(box.base),
        "home": home,
        "user": _user(),
        "host": machine.host(),
        "python": sys.executable,
        "python_version": sys.version.split()[0],
        "keeper": box.keeper,
        "cpus": _cpus(),
        "memory_bytes": machine.memory_bytes(),
        "cgroup": groups.limits(),
        "oom_kill": groups.oom_kills(),
        "disks": {path: disk.room(path) for path in (box.base, home, "/tmp", "/dev/shm") if os.path.isdir(path)},
        "gpus": _gpus(),
        "has": {**_has(), "reflinks": copying.can_clone(box.base)},
        "avoid": avoided.told(box.base),
        "os": {"system": uname.sysname, "release": uname.release, "machine": uname.machine},
    }
    if request.get("run"):
        facts["argv"] = want.supervise_argv(box, want.find_root(box, str(request["run"]), must_exist=False))
    if request.get("queue"):
        queue = find_queue(box, str(request["queue"]), must_exist=False)
        facts["argv"] = want.supervise_argv(box, queue)
        if os.path.isfile(queue.run):
            facts["lanes"] = Book(queue).lanes
    return facts


def _has() -> Dict[str, bool]:
    found = {name: shutil.which(name) is not None for name in ("bash", "git", "rsync", "setsid", "tmux")}
    found["systemd_user"] = os.path.exists("/run/user/%d/systemd/private" % os.getuid())
    return found


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers run as numbers without names
        return str(os.getuid())


def _gpus() -> List[Dict[str, Any]]:
    """Through NVML in a child, so that a hung GPU costs this call 10 seconds and nothing else."""
    if not gpu.exists():
        return []
    import subprocess

    argv = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "gpu"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return gpu.parse(done.stdout) or []
