"""What a beat says, and whether the payload moves."""

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_SLOW_S = 60.0  # disk room and GPUs are told once a minute
_GPU_LIMIT_S = 20.0  # a card that does not answer by then is left alone until the next minute
_MOVING_CORES = 0.01  # a waiting training process uses less than this, one that loads data more


class Vitals:
    """Measures one attempt. `payload`, `shim`: pids (0 = there is none); `start`: start of the payload in ticks.

    `pattern`: how its log tells progress, in the job's own words.
    """

    def __init__(
        self, root: Root, attempt: int, payload: int, start: int, shim: int, groups: cgroup.Groups, pattern: str = ""
    ) -> None:
        self.root = root
        self.groups = groups
        self.log = Log(root.log(attempt))
        self.progress = Progress(root.progress(attempt), LogProgress(root.log(attempt), pattern))
        self.members = Members(shim or payload, bool(shim))
        self._start = start
        self._began_s = time.monotonic()
        self._slow_s = 0.0
        self._gpu = GpuLook()

    def payload_s(self) -> float:
        """Seconds the payload has lived, by the boot clock; it goes on counting for whoever adopts it."""
        age = machine.age_s(self._start)
        return age if age is not None else time.monotonic() - self._began_s

    def beat(self) -> Dict[str, Any]:
        """The fields of a `beat` event."""
        log_bytes, log_age_s = self.log.look()
        is_new = self.progress.look()
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
        """Leave no child of ours behind."""
        self._gpu.drop()


class GpuLook:
    """One look at the cards at a time, in a child of its own; its answer goes into the next beat."""

    def __init__(self) -> None:
        self._pid = 0
        self._fd = -1
        self._begun_s = 0.0
        self._data = b""

    def begin(self) -> None:
        """Start a look where there is a driver and no look is under way."""
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
        """The cards, once the child has told all; None before, and where it told nothing."""
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


class Stillness:
    """Tells a stalled payload: no new log bytes, no new step, no CPU or GPU movement for `after_s`.

    Counted from the first step: a process that never tells a step is never called stalled.
    """

    def __init__(self, after_s: float | None) -> None:
        self.after_s = after_s
        self.is_stalled = False
        self._seen: Tuple[Any, ...] = ()
        self._cpu_s = 0.0
        self._gpu_moves = False
        self._at_s = 0.0  # when the last movement was seen
        self._looked_s = 0.0

    def look(self, now_s: float, beat: Dict[str, Any], step: int | None) -> str:
        """Take a beat in at `now_s` (monotonic); "stalled" or "moving" where that begins now, else ""."""
        if not self.after_s or step is None:
            return ""
        seen = (beat.get("log_bytes"), step)
        cpu_s = float(beat.get("cpu_s") or self._cpu_s)
        cores = abs(cpu_s - self._cpu_s) / max(now_s - self._looked_s, 1e-3)
        if "gpu" in beat:  # told once a minute; it holds until it is told again
            self._gpu_moves = any((card.get("util_pct") or 0) > 0 for card in beat["gpu"])
        moved = seen != self._seen or cores > _MOVING_CORES or self._gpu_moves
        self._seen, self._cpu_s, self._looked_s = seen, cpu_s, now_s
        if moved:
            self._at_s = now_s
            if self.is_stalled:
                self.is_stalled = False
                return "moving"
        elif not self.is_stalled and now_s - self._at_s >= self.after_s:
            self.is_stalled = True
            return "stalled"
        return ""

    def quiet_s(self, now_s: float) -> float:
        """Seconds since the last movement."""
        return round(max(0.0, now_s - self._at_s), 1)
