"""Watching a payload until it ends: beats, checkpoints, stalls, limits, and the way from SIGTERM to SIGKILL."""

from __future__ import annotations

import os
import signal
import time

from sojourn.box.run import locks
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import attempts_made, read_fields
from sojourn.box.supervise.anew import Anew
from sojourn.box.supervise.ending import Exit
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.supervise.snapshots import Looks
from sojourn.box.supervise.spares import Spares
from sojourn.box.supervise.vitals import Stillness, Vitals
from sojourn.box.system import members, process
from sojourn.box.system.wake import open_pidfd
from sojourn.wire import atomic, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_NEVER = float("inf")
_AGAIN_S = 10.0  # SIGKILL is sent again to what is still there (a process that was in an uninterruptible wait)
_NO_PIDFD_S = 0.5  # how often we look where the kernel cannot wake us


class Superseded(Exception):
    """Another keeper has claimed a later attempt, or our root was deleted and is another run's now: what we watch is
    nobody's any more.
    """


class Watch:
    """One living payload: `pid` and `start` of its first process, `shim` {"pid","start"} of its parent ({} = none)."""

    def __init__(
        self, keeper: Keeper, number: int, pid: int, start: int, shim: Dict[str, int], report: int = -1
    ) -> None:
        self.keeper = keeper
        self.number = number
        self.pid = pid
        self.start = start
        self.shim = shim
        self.is_for_orphans = False  # nobody can say how the payload ended; we watch what it left
        self._report = report
        self._heard = b""
        self._exit: Exit | None = None
        self._pidfd = -1
        self._pidfd_of = 0
        self._stillness = Stillness(keeper.spec.get("stall_after_s"))
        signalled = keeper.ledger.history.signalled
        self._why = str(signalled.get("why", ""))  # an earlier keeper asked it to end: its grace begins anew
        self._kill_at = time.monotonic() + keeper.grace_s if self._why else _NEVER
        self._is_killed = False
        self._looks = Looks(keeper, number)
        self._spares = Spares(keeper, number)
        self._anew = Anew(keeper.root, number, keeper.ledger.history.resumes)
        self._stop_at = ""  # the `at` of the stop request we acted on
        keeper.expected.add(pid)  # it becomes our child when its shim is killed
        if report >= 0:
            keeper.wake.watch(report)
        self._set_vitals()

    def run(self) -> Exit:
        """Until the payload has ended, however long that takes. Raises: Superseded, when the payload has been ended."""
        beat_s, next_beat = self.keeper.beat_s, 0.0
        while True:
            exit = self._find_exit()
            now = time.monotonic()
            if exit is not None or now >= next_beat:
                self._look_for_another()
            if exit is not None:
                return exit
            if now >= next_beat:
                self._beat(now)
                next_beat = now + beat_s
            self._spares.tick(now)
            self._press(time.monotonic())
            due = (next_beat, self._spares.next_s(now), self._kill_at, time.monotonic() + self._limit()[1])
            pause = min(due) - time.monotonic()
            if self._pidfd < 0 and self._report < 0:
                pause = min(pause, _NO_PIDFD_S)
            self.keeper.listen(max(pause, 0.0))

    def last_words(self) -> None:
        """After the end: the last progress and checkpoint, and one last beat with them."""
        self._note_beat(self.vitals.beat())
        self.vitals.end()
        self._looks.drop()
        self._spares.drop()
        self.close()

    def close(self) -> None:
        """Let go of the descriptors. Idempotent."""
        for fd in (self._report, self._pidfd):
            if fd >= 0:
                self.keeper.wake.unwatch(fd)
                os.close(fd)
        self._report = self._pidfd = -1

    def read_report(self) -> None:
        """Take in what the shim said on its pipe: where the payload began, how it ended."""
        while self._report >= 0:
            try:
                part = os.read(self._report, 4096)
            except BlockingIOError:
                return
            self._heard += part
            *lines, self._heard = self._heard.split(b"\n")
            for line in lines:
                word, a, b = line.decode("ascii").split()
                if word == "begun":
                    self.pid, self.start = int(a), int(b)
                    self.keeper.expected.add(self.pid)
                    self.shim = {"pid": self.shim["pid"], "start": process.start_of(self.shim["pid"])}
                    self._set_vitals()
                elif word == "ended":
                    self._exit = Exit(_number(a), _number(b), "shim")
            if not part:
                self.keeper.wake.unwatch(self._report)
                os.close(self._report)
                self._report = -1

    def _set_vitals(self) -> None:
        keeper = self.keeper
        shim = self.shim.get("pid", 0)
        pattern = str(keeper.spec.get("progress") or "")
        self.vitals = Vitals(keeper.root, self.number, self.pid, self.start, shim, keeper.groups, pattern)

    def _find_exit(self) -> Exit | None:
        self.read_report()
        if self._exit is not None:
            return self._exit
        shim = self.shim.get("pid", 0)
        if shim and shim not in self.keeper.reaped and process.is_alive(shim, self.shim.get("start", 0)):
            self._wake_at_end_of(shim)
            return None
        record = read_fields(self.keeper.root.exit(self.number))
        if record and not self.is_for_orphans:
            return Exit(record.get("rc"), record.get("signal"), "shim")
        if self.pid in self.keeper.reaped:  # the shim was killed, and the payload became our own child
            status = self.keeper.reaped.pop(self.pid)
            if os.WIFSIGNALED(status):
                return Exit(None, os.WTERMSIG(status), "keeper")
            return Exit(os.WEXITSTATUS(status), None, "keeper")
        if self.shim:
            complain("the shim of attempt %d is gone; the payload is watched without it" % self.number)
            self.shim = {}
            self._set_vitals()
        if self.pid and process.is_alive(self.pid, self.start):
            self._wake_at_end_of(self.pid)
            return None
        self.keeper.listen(0.0)  # its end may be waiting to be reaped
        if self.pid in self.keeper.reaped:
            return self._find_exit()
        return self._find_orphan() if self.is_for_orphans else Exit(None, None, "unknown")

    def _find_orphan(self) -> Exit | None:
        """The next of the processes that an ownerless payload left, or the unknown end when there is none."""
        pid, start = members.eldest_holder(self.keeper.root.payload_lock)
        if pid:
            self.pid, self.start = pid, start
            return None
        self._wake_at_end_of(0)
        return None if locks.is_held(self.keeper.root) else Exit(None, None, "unknown")

    def _wake_at_end_of(self, pid: int) -> None:
        if self._pidfd_of == pid:
            return
        if self._pidfd >= 0:
            self.keeper.wake.unwatch(self._pidfd)
            os.close(self._pidfd)
        self._pidfd, self._pidfd_of = open_pidfd(pid) if pid else -1, pid
        if self._pidfd >= 0:
            self.keeper.wake.watch(self._pidfd)

    def _beat(self, now_s: float) -> None:
        beat = self.vitals.beat()
        self._note_beat(beat)
        change = self._stillness.look(now_s, beat, self.vitals.progress.step)
        self._looks.tick(now_s)
        if change:
            self.keeper.ledger.note(change, self.number, quiet_s=self._stillness.quiet_s(now_s))

    def _note_beat(self, beat: Dict[str, Any]) -> None:
        ledger = self.keeper.ledger
        ledger.note("beat", self.number, **beat)
        found = self.vitals.progress.checkpoint
        if found and (found["path"], found["step"]) != ledger.history.checkpoint:
            ledger.note("checkpoint", self.number, **found)
        restarted = self._anew.look()
        if restarted:
            ledger.note("restarted", self.number, **restarted)

    def _limit(self) -> Tuple[str, float]:
        """The next limit of the job and the seconds until it is reached.

        `budget` counts all attempts, `max_duration` this one.
        """
        nearest = ("", _NEVER)
        if self._why:
            return nearest
        for word, before_s in (("max_duration", 0.0), ("budget", self.keeper.ledger.history.spent_s)):
            limit_s = self.keeper.limit_s(word)
            if limit_s is not None:
                nearest = min(nearest, (word, limit_s - before_s - self.vitals.payload_s()), key=lambda one: one[1])
        return nearest

    def _press(self, now_s: float) -> None:
        """Ask the payload to end where somebody wants that; end it where it had its grace."""
        keeper = self.keeper
        why, grace_s = "", keeper.grace_s
        stop = keeper.stop_request(self.number)
        if stop and stop.get("at") != self._stop_at:
            self._stop_at = str(stop.get("at"))
            why = str(stop.get("why") or "stop")
            grace_s = grace_s if stop.get("grace_s") is None else float(stop["grace_s"])
        elif keeper.is_told_to_end and not self._why:
            why, grace_s = keeper.told_why, keeper.end_by_s - now_s
            grace_s = keeper.grace_s if grace_s == _NEVER else max(0.0, grace_s)
        elif not self._why and self._limit()[1] <= 0:
            why = self._limit()[0]
            self._request_stop(why, grace_s)
        if why and self._why:
            self._kill_at = min(self._kill_at, now_s + grace_s)  # asked again: only ever sooner
        elif why:
            self._why, self._kill_at = why, now_s + grace_s
            keeper.ledger.note("signal", self.number, signal="TERM", why=why)
            members.send(self._orphans(), signal.SIGTERM)
            members.send_group(self.pid, signal.SIGTERM)
            members.send_group(self.pid, signal.SIGCONT)  # a stopped process would take its SIGTERM only later
        elif now_s >= self._kill_at:
            if not self._is_killed:
                keeper.ledger.note("signal", self.number, signal="KILL", why=self._why)
            self._is_killed, self._kill_at = True, now_s + _AGAIN_S
            self._kill()
        elif self._why in ("shutdown", "walltime") and not self._is_killed:
            self._kill_at = min(self._kill_at, keeper.end_by_s)  # told again, with less time

    def _kill(self) -> None:
        below = members.below(self.shim["pid"])[1:] if self.shim else members.below(self.pid)
        members.send(below + self._orphans(), signal.SIGKILL)
        members.send_group(self.pid, signal.SIGKILL)

    def _look_for_another(self) -> None:
        """Not a word into the events where another keeper writes them now. Raises: Superseded."""
        if self.keeper.ledger.is_displaced:
            self.is_for_orphans = False  # who holds the payload lock at that path is the other run's
            why = "lost its folder to another run"
        elif attempts_made(self.keeper.root)[-1:] > [self.number]:
            why = "was taken over by a later one"
        else:
            return
        complain("attempt %d %s: its process is ended" % (self.number, why))
        self._kill()
        self.close()
        raise Superseded

    def _orphans(self) -> List[int]:
        return members.holders(self.keeper.root.payload_lock) if self.is_for_orphans else []

    def _request_stop(self, why: str, grace_s: float) -> None:
        """Our own decision goes where an adopter of this payload will find it."""
        at = units.stamp(time.time())
        self._stop_at = at
        try:
            atomic.write_json(self.keeper.root.stop, {"attempt": self.number, "grace_s": grace_s, "why": why, "at": at})
        except OSError as error:
            complain("stop.json: %s" % error)


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)
