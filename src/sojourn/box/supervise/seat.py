"""A seat: the time on a machine that a scheduler gave to a run, named by SOJOURN_SEAT as in `core.ports.Scheduler`.

Schedulers give a run its next seat while processes of the last one may still live, on a machine that we cannot see.
Locks prove nothing there, so each seat has its own, and the fencing token decides: making `attempts/N+1` ends attempt
N, whose keeper looks for it at every beat and then ends silently.
"""

from __future__ import annotations

import os
import time

from sojourn.box.run.ledger import Ledger, complain
from sojourn.box.run.root import attempts_made, read_fields, read_number
from sojourn.box.supervise import attempt, ending
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import machine
from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

_MOST_S = 12.0  # for an earlier keeper to notice that its time is over; it looks at every beat
_LATE_LINES = 1000  # event numbers left free for what it may write before it notices


def job_of(seat: object) -> str:
    """The scheduler's id of the job, whichever start of it this is; "" for no seat."""
    return str(seat or "").rpartition(":")[0]


def goes_on(keeper: Keeper) -> bool:
    """Whether the scheduler restarted this very job after cutting the last attempt off: at most once per seat.

    What a person stopped, or what failed by itself, stays ended.
    """
    history = keeper.ledger.history
    before = history.begun.get("seat")
    if not keeper.root.seat or before == keeper.root.seat or job_of(before) != job_of(keeper.root.seat):
        return False
    was_asked_to_end = history.signalled.get("why") in ("shutdown", "walltime")
    return history.state in ("lost", "preempted", "killed") or (history.state == "failed" and was_asked_to_end)


def wants_another(keeper: Keeper) -> bool:
    """Whether what just ended with its seat would make progress in another. A time limit's end is `preempted` only if
    something was saved in this seat: else it would do the same for ever.
    """
    return bool(keeper.root.seat) and keeper.is_told_to_end and keeper.ledger.history.state == "preempted"


MOST_AVOIDED = 5  # machines in a row: more means a fault of what they share, or of the check


def elsewhere(keeper: Keeper) -> int:
    """Request another seat on machines without the fault: the exit status of the keeper. The names are in
    `Root.seat_avoid`, for the one who asks the scheduler. 0 once that many have been tried."""
    path = keeper.root.seat_avoid(keeper.root.seat)
    tried = read_names(path)
    names = list(dict.fromkeys([*tried, *keeper.avoid]))
    if len(names) > MOST_AVOIDED:
        complain("these machines all have a fault, so no other one is asked for: %s" % ", ".join(names))
        return 0
    try:
        atomic.write(path, ("\n".join(names) + "\n").encode())
    except OSError as error:
        complain("%s: %s" % (path, error))
        return 0
    return ending.RUN_ME_AGAIN


def read_names(path: str) -> List[str]:
    """The lines of a small file; [] if there is none."""
    try:
        with open(path) as f:
            return f.read(4096).split()
    except OSError:
        return []


def take_seat(keeper: Keeper) -> None:
    """Close what an earlier seat left open, and make sure that nothing of it writes where we do. Raises: OSError.

    If nothing should follow, it is only closed, the usual way.
    """
    root, history = keeper.root, keeper.ledger.history
    before = history.begun.get("seat")
    if not root.seat or history.is_over or before == root.seat or keeper.stop_request(history.attempt):
        return
    want = read_fields(root.want)
    is_asked_for = read_number(root.want, "attempt") > history.attempt or ending.may_retry("lost", keeper.spec, want)
    if not is_asked_for and job_of(before) != job_of(root.seat):
        return
    record = read_fields(root.exit(history.attempt))  # anything later is the end caused by our claim
    number = _claim(keeper, history.attempt + 1)
    there = str(history.begun.get("host"))
    if there != machine.host():
        until_s = time.monotonic() + min(_MOST_S, 2 * keeper.beat_s)
        while time.monotonic() < until_s and not keeper.is_told_to_end:
            keeper.listen(until_s - time.monotonic())
        keeper.ledger.close()
        keeper.ledger = Ledger(root.events)
    keeper.ledger.history.seq += _LATE_LINES
    if not keeper.ledger.history.is_over:
        attempt.close(
            keeper, record, "it was given another machine: it ran on %s, this is %s" % (there, machine.host())
        )
    if read_number(root.want, "attempt") < number:
        atomic.write_json(root.want, dict(want, attempt=number, by="seat"))


def _claim(keeper: Keeper, number: int) -> int:
    """The first unclaimed fencing token from `number` on. Raises: OSError."""
    number = max([number] + [made + 1 for made in attempts_made(keeper.root)])
    os.mkdir(keeper.root.attempt(number))
    keeper.claimed = number
    complain("attempt %d is claimed for the seat %s" % (number, keeper.root.seat))
    return number
