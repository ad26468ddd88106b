"""A beat's report on the payload: CPU, memory, threads, disks, GPUs, log and progress."""

from __future__ import annotations

import os
import sys
import time

from sojourn.box.run.log_progress import LogProgress
from sojourn.box.run.logfile import Log
from sojourn.box.run.progress import Progress
from sojourn.box.run.root import Root
from sojourn.box.system import cgroup, disk, gpu, machine
from sojourn.box.system.members import Members
from sojourn.box.trackers.files import Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sojourn.wire.documents import Spec

_SLOW_S = 60.0  # disk room and GPUs are reported once a minute
_GPU_LIMIT_S = 20.0  # a GPU that does not answer by then is left alone until the next minute


class Vitals:
    """Measures one attempt. `payload`, `shim`: pids (0 = there is none); `start`: start of the payload in ticks.

    `spec`: the run's, for its command and its own pattern for progress in the log.
    """

    def __init__(
        self, root: Root, attempt: int, payload: int, start: int, shim: int, groups: cgroup.Groups, spec: Spec
    ) -> None:
        self.root = root
        self.groups = groups
        self.log = Log(root.log(attempt))
        files = Files((root.attempt(attempt), root.checkpoints), root.begun(attempt))
        log = LogProgress(root.log(attempt), str(spec.get("progress") or ""), spec.get("argv") or ())
        self.progress = Progress(root.progress(attempt), log, files)
        self.members = Members(shim or payload, bool(shim))
        self._start = start
        self._began_s = time.monotonic()
        self._slow_s = 0.0
        self._gpu = GpuLook()

    def payload_s(self) -> float:
        """Seconds the payload has lived, by the boot clock; continues for a keeper that adopts it."""
        age = machine.age_s(self._start)
        return age if age is not None else time.monotonic() - self._began_s

    def beat(self, is_last: bool = False) -> Dict[str, Any]:
        """The fields of a `beat` event."""
        log_bytes, log_age_s = self.log.look()
        is_new = self.progress.look(is_last)
        fields: Dict[str, Any] = {"payload_s": round(self.payload_s(), 1)}
        fields.update(self.members.usage() or {})
        fields["cgroup_bytes"] = self.groups.memory_bytes()
        fields["oom_kill"] = self.groups.oom_kills()
        fields["log_bytes"] = log_bytes
        fields["log_age_s"] = round(log_age_s, 1)
        if is_new:
            fields["progress"] = self.progress.told()
        now = time.monotonic()
        if now >= self._slow_s:
            self._slow_s = now + _SLOW_S
            room = disk.room(self.root.base)
            if room:
                told = {"free_bytes": room["free_bytes"], "free_inodes": room["free_inodes"]}
                fields["disk"] = {self.root.base: told}
            self._gpu.begin()
        gpus = self._gpu.take()
        if gpus is not None:
            fields["gpu"] = gpus
        return fields

    def end(self) -> None:
        """End any child of ours."""
        self._gpu.drop()


class GpuLook:
    """One look at the GPUs at a time, in a child; its answer goes into the next beat."""

    def __init__(self) -> None:
        self._pid = 0
        self._fd = -1
        self._begun_s = 0.0
        self._data = b""

    def begin(self) -> None:
        """Start a look if there is a driver and no look is under way."""
        if self._pid and time.monotonic() - self._begun_s > _GPU_LIMIT_S:
            self.drop()
        if self._pid or not gpu.exists():
            return
        ours, its = os.pipe()
        os.set_blocking(ours, False)
        argv = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "gpu"]
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, its, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
        try:
            self._pid = os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions)
        except OSError:
            os.close(ours)
        else:
            self._fd, self._begun_s, self._data = ours, time.monotonic(), b""
        finally:
            os.close(its)
            os.close(null)

    def take(self) -> List[Dict[str, Any]] | None:
        """The GPUs, once the child has reported; None before, and if it reported nothing."""
        while self._fd >= 0:
            try:
                part = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return None
            self._data += part
            if not part:
                os.close(self._fd)
                self._fd, self._pid = -1, 0
                return gpu.parse(self._data)
        return None

    def drop(self) -> None:
        """Give a look up."""
        if self._fd >= 0:
            os.close(self._fd)
        if self._pid:
            try:
                os.kill(self._pid, 9)
            except ProcessLookupError:
                pass
        self._fd, self._pid = -1, 0
