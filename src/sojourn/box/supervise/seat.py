"""A seat: the time on a machine that a scheduler gave to a run, named by SOJOURN_SEAT as `core.ports.Scheduler` says.

Schedulers give a run its next seat while what runs in the last one may still live, on a machine that we cannot see.
Locks prove nothing there, so each seat has its own, and the fencing token decides: making `attempts/N+1` ends what is
of attempt N, which looks for it at every beat and then ends without another word.
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

_MOST_S = 12.0  # for an earlier keeper to see that its time is over; it looks at every beat
_LATE_LINES = 1000  # numbers of events that are left free for what it may yet write before it has seen it


def job_of(seat: object) -> str:
    """What the scheduler calls it, whichever start of it this is; "" for no seat."""
    return str(seat or "").rpartition(":")[0]


def goes_on(keeper: Keeper) -> bool:
    """Whether the scheduler started this very job again after it had cut the last attempt off: at most once a seat.

    What a person stopped, or what failed by itself, stays ended.
    """
    history = keeper.ledger.history
    before = history.begun.get("seat")
    if not keeper.root.seat or before == keeper.root.seat or job_of(before) != job_of(keeper.root.seat):
        return False
    was_asked_to_end = history.signalled.get("why") in ("shutdown", "walltime")
    return history.state in ("lost", "preempted", "killed") or (history.state == "failed" and was_asked_to_end)


def wants_another(keeper: Keeper) -> bool:
    """Whether what just ended because its seat ends would get on in another one. Where a time limit ends it, only if it
    saved something in this one: else it would do the same for ever.
    """
    history = keeper.ledger.history
    if not keeper.root.seat or not keeper.is_told_to_end or history.state != "preempted":
        return False
    return keeper.told_why == "shutdown" or history.has_saved or history.ended.get("rc") == ending.RUN_ME_AGAIN


def take_seat(keeper: Keeper) -> None:
    """Close what an earlier seat left open, and see to it that nothing of it writes where we do. Raises: OSError.

    Where nothing is to follow it is only closed, by the usual way.
    """
    root, history = keeper.root, keeper.ledger.history
    before = history.begun.get("seat")
    if not root.seat or history.is_over or before == root.seat or keeper.stop_request(history.attempt):
        return
    want = read_fields(root.want)
    is_asked_for = read_number(root.want, "attempt") > history.attempt or ending.may_retry("lost", keeper.spec, want)
    if not is_asked_for and job_of(before) != job_of(root.seat):
        return
    record = read_fields(root.exit(history.attempt))  # what comes later is the end that our claim makes
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
    """The first fencing token from `number` on that nobody has. Raises: OSError."""
    number = max([number] + [made + 1 for made in attempts_made(keeper.root)])
    os.mkdir(keeper.root.attempt(number))
    keeper.claimed = number
    complain("attempt %d is claimed for the seat %s" % (number, keeper.root.seat))
    return number
