"""What the parts of a keeper share: the root, the ledger, the wait, and the signals received."""

from __future__ import annotations

import os
import signal
import sys
import time

from sojourn.box.run.ledger import Ledger, complain
from sojourn.box.run.root import Root, read_fields, read_spec
from sojourn.box.system import cgroup, machine, process
from sojourn.box.system.wake import Wake, become_subreaper
from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set


class Keeper:
    """In charge of one root: only the holder of keeper.lock makes one.

    Raises: OSError, ValueError (no readable run.json).
    """

    def __init__(self, root: Root, wake: Wake) -> None:
        self.root = root
        self.wake = wake
        self.spec = read_spec(root)
        root.make_folders()
        self.groups = cgroup.Groups()
        self.is_told_to_end = False  # by SIGTERM: the machine is shutting down
        self.told_why = "shutdown"  # or "walltime": our seat will end, and the payload can use the time to save
        self.is_warned = False  # by SIGINT in a seat: its time limit is near
        self.avoid: List[str] = []  # machines of the seat with their own fault: the run should start on others
        self.end_by_s = float("inf")  # by the monotonic clock: in a seat, the deadline after a signal
        self.claimed = 0  # the fencing token taken before its attempt is recorded
        self.expected: Set[int] = set()  # children whose wait status is needed; others are only reaped
        self.reaped: Dict[int, int] = {}  # of these, the ended ones: pid -> wait status
        self.is_tidy = False  # nothing of the last attempt is left running
        self.ledger = Ledger(root.events)
        become_subreaper()
        pid = os.getpid()
        digest = os.path.basename(sys.argv[0])[len("keeper-") :].partition(".")[0]
        self.me = {"pid": pid, "start": process.start_of(pid), "digest": digest}
        self.sign()

    @property
    def beat_s(self) -> float:
        """Seconds between beats."""
        return max(0.05, float(self.spec.get("beat_s") or 5.0))

    @property
    def grace_s(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        grace = self.spec.get("grace_s")
        return 30.0 if grace is None else float(grace)

    def sign(self) -> None:
        """Record in keeper.json who is in charge."""
        fields = dict(self.me, boot_id=machine.boot_id(), host=machine.host(), attempt=self.ledger.history.attempt)
        if self.root.seat:
            fields["seat"] = self.root.seat
        try:
            atomic.write_json(self.root.keeper, fields, durable=False)
        except OSError as error:
            complain("keeper.json: %s" % error)

    def listen(self, timeout_s: float) -> None:
        """Wait for a signal, a child or a watched descriptor; process what came."""
        came = self.wake.wait(timeout_s)
        if signal.SIGINT in came and self.root.seat:
            self.is_warned = True
            self._end_in(_read(self.root.seat_left(self.root.seat)) or os.environ.get("SOJOURN_SEAT_LEAD_S", ""))
        elif signal.SIGINT in came:
            self.is_told_to_end = True
        if signal.SIGTERM in came:
            self.is_told_to_end = True
            self._end_in(os.environ.get("SOJOURN_SEAT_GRACE_S", "") if self.root.seat else "")
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self.expected:
                self.expected.discard(pid)
                self.reaped[pid] = status

    def tell_of_limit(self) -> None:
        """From now on the payload must save and leave, for the seat's time limit."""
        if not self.is_told_to_end:
            self.is_told_to_end, self.told_why = True, "walltime"

    def _end_in(self, seconds: str) -> None:
        if seconds.isdigit():
            self.end_by_s = min(self.end_by_s, time.monotonic() + int(seconds))

    def stop_request(self, attempt: int) -> Dict[str, Any]:
        """The request to this attempt in stop.json: {"why","grace_s","at"}, or nothing."""
        stop = read_fields(self.root.stop)
        number = stop.get("attempt")
        return stop if isinstance(number, int) and number >= attempt else {}

    def limit_s(self, word: str) -> float | None:
        """`max_duration` or `budget` in seconds; this attempt's request may have set another in want.json."""
        key = word + "_s"
        for source in (read_fields(self.root.want), self.spec):
            value = source.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None


def _read(path: str) -> str:
    try:
        with open(path) as f:
            return f.read(32).strip()
    except (OSError, ValueError):
        return ""
