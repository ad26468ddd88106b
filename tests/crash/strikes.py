"""Who is killed on the box, and when: watches the run's root change, finds the processes, sends SIGKILL."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.crash.schedule import Strike
from tests.ending import environment, processes
from tests.spine.conftest import alive

TICK_S = 0.002
PATIENCE_S = 6.0  # what never changes is not waited for longer


class Striker(threading.Thread):
    """Does the strikes one after another while a trial runs. `kills`: by what the process was."""

    def __init__(self, root: Path, home: Path, strikes: Sequence[Strike], tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._root, self._home, self._strikes, self._tell = root, home, list(strikes), tell
        self._over = threading.Event()
        self.kills: Counter[str] = Counter()
        self.clients: set[int] = set()  # pids of ours that `everything` hit

    def run(self) -> None:
        """The thread itself."""
        for strike in self._strikes:
            if not self._await(strike):
                return
            hit = self.strike(strike.victim)
            where = f"{strike.count}. change of {strike.sign}" if strike.sign else "time"
            self._tell(f"strike at {where} + {strike.delay_s} s: {strike.victim}: killed {hit or 'nobody'}")

    def stop(self) -> None:
        """No further strikes; back when none is under way."""
        self._over.set()
        self.join()

    def strike(self, victim: str) -> str:
        """Kill all that `victim` names; what was hit, in words."""
        wanted = victim.split("+")
        hit = []
        for pid, kind in self.living():
            if victim == "everything" or kind in wanted or ("group" in wanted and kind in ("training", "shell")):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                hit.append(f"{kind} {pid}")
                self.kills[kind] += 1
                if kind == "client":
                    self.clients.add(pid)
        return ", ".join(hit)

    def living(self) -> list[tuple[int, str]]:
        """(pid, what it is) of every living process of this trial; its home tells."""
        home, root = f"HOME={self._home}".encode(), f"SOJOURN_RUN_DIR={self._root}".encode()
        found = []
        for pid in processes():
            variables = environment(pid)
            if home not in variables or not alive(pid):
                continue
            words = _argv(pid)
            if b"supervise" in words:
                kind = "keeper"
            elif words[-1:] == [b"call"]:
                kind = "call"
            elif b"shim" in words and words[0].find(b"python") >= 0:
                kind = "shim"
            elif root in variables:
                kind = "training" if b"train.py" in words else "shell"
            elif words[:3] and (b"sojourn" in words or any(word.endswith(b"crashing.py") for word in words)):
                kind = "client"
            else:
                kind = "other"
            found.append((pid, kind))
        return found

    def _await(self, strike: Strike) -> bool:
        """Wait for its sign; False where the trial was over before."""
        left, seen = strike.count, self._stand(strike.sign)
        give_up_s = time.monotonic() + PATIENCE_S
        while left > 0 and time.monotonic() < give_up_s:
            if self._over.wait(TICK_S):
                return False
            now = self._stand(strike.sign)
            if now != seen:
                left, seen = left - 1, now
        if strike.delay_s:
            return not self._over.wait(strike.delay_s)
        return not self._over.is_set()

    def _stand(self, sign: str) -> object:
        try:
            found = os.stat(self._root / sign)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def tree(pid: int) -> list[int]:
    """A process and all below it, by their parents."""
    parents: dict[int, list[int]] = {}
    for one in processes():
        try:
            parent = int(Path(f"/proc/{one}/stat").read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(one)
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def wait_gone(striker: Striker, within_s: float) -> list[tuple[int, str]]:
    """What of the trial still lives when nothing should, after at most `within_s`."""
    deadline_s = time.monotonic() + within_s
    while (left := striker.living()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return left


def _argv(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
