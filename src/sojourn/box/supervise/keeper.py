"""What the parts of a keeper share: the root, the ledger, the wait, and what it was told."""

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
    from typing import Any, Dict, Set


class Keeper:
    """In charge of one root: only who holds keeper.lock makes one.

    Raises: OSError, ValueError (no readable run.json).
    """

    def __init__(self, root: Root, wake: Wake) -> None:
        self.root = root
        self.wake = wake
        self.spec = read_spec(root)
        root.make_folders()
        self.groups = cgroup.Groups()
        self.is_told_to_end = False  # by SIGTERM: the machine goes down
        self.told_why = "shutdown"  # or "walltime": the scheduler says that our seat will end
        self.end_by_s = float("inf")  # by the monotonic clock: in a seat, when what was told must be done
        self.claimed = 0  # the fencing token that we have taken before its attempt is noted
        self.expected: Set[int] = set()  # children whose wait status somebody wants; others are only reaped
        self.reaped: Dict[int, int] = {}  # of these, what has ended: pid -> wait status
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
        """Say in keeper.json who is in charge."""
        fields = dict(self.me, boot_id=machine.boot_id(), host=machine.host(), attempt=self.ledger.history.attempt)
        if self.root.seat:
            fields["seat"] = self.root.seat
        try:
            atomic.write_json(self.root.keeper, fields, durable=False)
        except OSError as error:
            complain("keeper.json: %s" % error)

    def listen(self, timeout_s: float) -> None:
        """Wait for a signal, a child or a watched descriptor; take in what came."""
        came = self.wake.wait(timeout_s)
        for number, limit in ((signal.SIGINT, "SOJOURN_SEAT_LEAD_S"), (signal.SIGTERM, "SOJOURN_SEAT_GRACE_S")):
            if number in came:
                if number == signal.SIGINT and self.root.seat and not self.is_told_to_end:
                    self.told_why = "walltime"
                self.is_told_to_end = True
                text = os.environ.get(limit, "") if self.root.seat else ""
                if text.isdigit():
                    self.end_by_s = min(self.end_by_s, time.monotonic() + int(text))
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

    def stop_request(self, attempt: int) -> Dict[str, Any]:
        """What stop.json asks of this attempt: {"why","grace_s","at"}, or nothing."""
        stop = read_fields(self.root.stop)
        number = stop.get("attempt")
        return stop if isinstance(number, int) and number >= attempt else {}

    def limit_s(self, word: str) -> float | None:
        """`max_duration` or `budget` in seconds; who asked for this attempt may have set another one in want.json."""
        key = word + "_s"
        for source in (read_fields(self.root.want), self.spec):
            value = source.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None
