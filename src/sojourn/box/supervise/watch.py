"""Watching a payload until it ends: beats, checkpoints, stalls, limits, and the steps from SIGTERM to SIGKILL."""

from __future__ import annotations

import os
import signal
import time

from sojourn.box.run import locks
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import attempts_made, read_fields
from sojourn.box.supervise import early
from sojourn.box.supervise.allowance import Allowance
from sojourn.box.supervise.anew import Anew
from sojourn.box.supervise.ending import Exit
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.supervise.pruning import Pruning
from sojourn.box.supervise.snapshots import Snapshots
from sojourn.box.supervise.spares import Spares
from sojourn.box.supervise.stall import StallDetector
from sojourn.box.supervise.vitals import Vitals
from sojourn.box.system import members, process
from sojourn.box.system.wake import open_pidfd
from sojourn.wire import atomic, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_NEVER = float("inf")
_AGAIN_S = 10.0  # SIGKILL is sent again to remaining processes (one may have been in an uninterruptible wait)
_NO_PIDFD_S = 0.5  # how often we look if the kernel cannot wake us


class Superseded(Exception):
    """Another keeper has claimed a later attempt, or our root was deleted and now belongs to another run: nobody needs
    what we watch.
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
        self.is_for_orphans = False  # nobody can say how the payload ended; we watch its leftovers
        self._report = report
        self._heard = b""
        self._exit: Exit | None = None
        self._pidfd = -1
        self._pidfd_of = 0
        self._stall = StallDetector(keeper.spec.get("stall_after_s"))
        signalled = keeper.ledger.history.signalled
        self._why = str(signalled.get("why", ""))  # an earlier keeper asked it to end: its grace restarts
        self._kill_at = time.monotonic() + keeper.grace_s if self._why else _NEVER
        self._is_killed = False
        self._snapshots = Snapshots(keeper, number)
        self._spares = Spares(keeper, number)
        self._anew = Anew(keeper.root, number, keeper.ledger.history.resumes)
        self._pruning = Pruning(keeper, number)
        self._allowance = Allowance(keeper.ledger.history.budget)
        self._stop_at = ""  # the `at` of the stop request we followed
        keeper.expected.add(pid)  # it becomes our child if its shim is killed
        if report >= 0:
            keeper.wake.watch(report)
        self._set_vitals()

    def run(self) -> Exit:
        """Until the payload has ended, however long that takes. Raises: Superseded, after ending the payload."""
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
            mark_s = time.monotonic() + self._tell_budget()
            self._press(time.monotonic())
            limit_s = time.monotonic() + self._limit()[1]
            due = (next_beat, self._spares.next_s(now), self._kill_at, limit_s, mark_s, self._warning_s())
            pause = min(due) - time.monotonic()
            if self._pidfd < 0 and self._report < 0:
                pause = min(pause, _NO_PIDFD_S)
            self.keeper.listen(max(pause, 0.0))

    def last_words(self) -> None:
        """After the end: the last progress and checkpoint, and one last beat with them."""
        self._note_beat(self.vitals.beat(is_last=True))
        self.vitals.end()
        self._snapshots.drop()
        self._spares.drop()
        self.close()

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        for fd in (self._report, self._pidfd):
            if fd >= 0:
                self.keeper.wake.unwatch(fd)
                os.close(fd)
        self._report = self._pidfd = -1

    def read_report(self) -> None:
        """Take in the shim's reports on its pipe: where the payload started, how it ended."""
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
        self.vitals = Vitals(keeper.root, self.number, self.pid, self.start, shim, keeper.groups, keeper.spec)

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
        """The next of an ownerless payload's leftover processes, or the unknown end if there is none."""
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
        change = self._stall.update(now_s, beat, self.vitals.progress.step)
        self._snapshots.tick(now_s)
        behind = "" if self._why else self._pruning.look(self.vitals.progress.value)
        if behind:
            self._request_stop("pruned", self.keeper.grace_s, behind)
            self._stop_at = ""  # followed as anybody's
        if change:
            self.keeper.ledger.note(change, self.number, quiet_s=self._stall.quiet_s(now_s))

    def _note_beat(self, beat: Dict[str, Any]) -> None:
        ledger = self.keeper.ledger
        ledger.note("beat", self.number, **beat)
        for found in self.vitals.progress.saved_since(ledger.history.checkpoint):
            ledger.note("checkpoint", self.number, **found)
        restarted = self._anew.look()
        if restarted:
            ledger.note("restarted", self.number, **restarted)

    def _tell_budget(self) -> float:
        """Report each part of the budget once when it is spent; returns the seconds until the next."""
        spent_s = self.keeper.ledger.history.spent_s + self.vitals.payload_s()
        limit_s = self.keeper.limit_s("budget")
        told = self._allowance.look(spent_s, limit_s)
        if told:
            self.keeper.ledger.note("budget", self.number, **told)
        return self._allowance.left_s(spent_s, limit_s)

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

    def _warning_s(self) -> float:
        """When to warn the payload of its seat's time limit: never, if it could not use that."""
        keeper = self.keeper
        if not keeper.is_warned or self._why or not early.is_for(keeper.root, keeper.spec, self.number):
            return _NEVER
        saved = self.vitals.progress.checkpoint or {}
        took = saved.get("write_s")
        return keeper.end_by_s - early.need_s(keeper.spec, float(took) if isinstance(took, (int, float)) else 0.0)

    def _press(self, now_s: float) -> None:
        """Ask the payload to end if requested; end it after its grace."""
        keeper = self.keeper
        if self._warning_s() <= now_s:
            keeper.tell_of_limit()
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
            self._ask(signal.SIGTERM if why != "walltime" else early.number_of(keeper.spec), why)
        elif now_s >= self._kill_at:
            if not self._is_killed:
                keeper.ledger.note("signal", self.number, signal="KILL", why=self._why)
            self._is_killed, self._kill_at = True, now_s + _AGAIN_S
            self._kill()
        elif self._why in ("shutdown", "walltime") and not self._is_killed:
            self._kill_at = min(self._kill_at, keeper.end_by_s)  # warned again, with less time

    def _ask(self, number: int, why: str) -> None:
        self.keeper.ledger.note("signal", self.number, signal=signal.Signals(number).name[3:], why=why)
        if number == signal.SIGTERM:
            members.send(self._orphans(), number)
            members.send_group(self.pid, number)
        else:
            early.send(members.below(self.pid) + self._orphans(), number)
        members.send_group(self.pid, signal.SIGCONT)  # a stopped process would take it only later

    def _kill(self) -> None:
        below = members.below(self.shim["pid"])[1:] if self.shim else members.below(self.pid)
        members.send(below + self._orphans(), signal.SIGKILL)
        members.send_group(self.pid, signal.SIGKILL)

    def _look_for_another(self) -> None:
        """Write no event once another keeper writes them. Raises: Superseded."""
        if self.keeper.ledger.is_displaced:
            self.is_for_orphans = False  # the payload lock at that path belongs to the other run
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

    def _request_stop(self, why: str, grace_s: float, detail: str = "") -> None:
        """Record our own decision where an adopter of this payload will find it."""
        at = units.stamp(time.time())
        self._stop_at = at
        fields = {"attempt": self.number, "grace_s": grace_s, "why": why, "at": at}
        try:
            atomic.write_json(self.keeper.root.stop, dict(fields, **({"detail": detail} if detail else {})))
        except OSError as error:
            complain("stop.json: %s" % error)


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)
