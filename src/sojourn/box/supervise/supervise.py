"""`supervise`: one keeper per root. Decides what to do with the run, again and again, until nothing remains.

Adopt what lives, record what ended, start what is requested, seal what is over.
"""

from __future__ import annotations

import fcntl
import functools
import os
import time

from sojourn.box.run import secrets
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, read_fields, read_number
from sojourn.box.supervise import attempt, ending, prepare, reboot, seat, user_rules
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.supervise.watch import Superseded
from sojourn.box.system import identity
from sojourn.box.system.wake import Wake
from sojourn.wire import atomic, units

_TOLD = 20  # files that no output names, in the event
_FULL_DISK_S = 5.0  # how often an unwritten record is retried


def supervise(path: str) -> int:
    """Tend the run, or the queue, at `path` until nothing is left to do. 0 done, or another keeper is in charge; 74 the
    root is unusable; 75 it was cut off in a scheduler's seat and would make progress in another one.

    Safe to start at any time, any number of times: the lock decides.
    """
    root = Root(path, os.environ.get("SOJOURN_SEAT", ""))
    _stand_alone()
    identity.register(root.base)  # including a base that no client has yet asked
    wake = Wake()
    if os.path.basename(os.path.dirname(root.path)) == "queues":
        from sojourn.box.supervise import queue_keeper

        return queue_keeper.supervise(root, wake)
    while True:
        try:
            lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            complain("%s" % error)
            return 74
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return 0
        keeper = None
        try:
            keeper = Keeper(root, wake)
            seat.take_seat(keeper)
            tend(keeper)
        except Superseded:
            return 0
        except (OSError, ValueError) as error:
            complain("cannot continue: %s" % error)
            return 74
        finally:
            if keeper is not None:
                keeper.ledger.close()
            os.close(lock)
        # Somebody may have requested more after we looked and, finding us still in charge, started no other keeper.
        if keeper.avoid:
            return seat.elsewhere(keeper)
        if keeper.is_told_to_end:
            return ending.RUN_ME_AGAIN if seat.wants_another(keeper) else 0
        if not next_attempt(keeper):
            reboot.unhook(root, functools.partial(next_attempt, keeper))
            return 0


def seal_only(path: str) -> int:
    """Seal a run whose end is on record and whose keeper is gone; start nothing. 0 done, or a keeper is in charge."""
    root = Root(path)
    _stand_alone()
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper = Keeper(root, Wake())
        if keeper.ledger.history.ended and not keeper.ledger.history.is_sealed:
            drop_secrets(keeper)
            seal(keeper)
        keeper.ledger.close()
    finally:
        os.close(lock)
    return 0


def tend(keeper: Keeper) -> None:
    """Until nothing is left to do, or we are told to end. Raises: OSError (the root cannot be written)."""
    while True:
        history = keeper.ledger.history
        if not history.is_over:
            attempt.go_on(keeper)
        elif next_attempt(keeper) and not keeper.is_told_to_end:
            attempt.begin(keeper, next_attempt(keeper))
        elif history.attempt and not history.is_sealed:
            attempt.tidy(keeper)  # if an earlier keeper recorded the end, but no more
            drop_secrets(keeper)  # before the seal, which describes the logs as they will stay
            if not seal(keeper):
                return
        else:
            drop_secrets(keeper)
            break
    # Records not written while the disk was full are only in our memory: stay until they are.
    while not keeper.ledger.flush() and not keeper.is_told_to_end:
        keeper.listen(_FULL_DISK_S)


def next_attempt(keeper: Keeper) -> int:
    """The attempt to start now, 0 for none. Requests it itself if the job's `retry` says so."""
    history = keeper.ledger.history
    if history.state == "succeeded" or not history.is_over:
        return 0
    wanted = read_number(keeper.root.want, "attempt")
    if wanted > history.attempt:
        return wanted
    want = read_fields(keeper.root.want)
    action = user_rules.settle(keeper)
    if (
        keeper.is_told_to_end
        or keeper.avoid
        or keeper.stop_request(history.attempt)
        or action in ending.REFUSING
        or not (
            ending.may_retry(history.state, keeper.spec, want, action) or reboot.goes_on(keeper) or seat.goes_on(keeper)
        )
    ):
        return 0
    auto = want.get("auto")
    grown = {"attempt": history.attempt + 1, "by": "retry", "auto": 1 + (auto if isinstance(auto, int) else 0)}
    try:
        atomic.write_json(keeper.root.want, dict(want, **grown))
    except OSError as error:
        complain("want.json: %s" % error)
        return 0
    return history.attempt + 1


def drop_secrets(keeper: Keeper) -> None:
    """The run is over: its secrets go. They stay if the next keeper will continue by itself after a shutdown."""
    history, want = keeper.ledger.history, read_fields(keeper.root.want)
    may_retry = ending.may_retry(history.state, keeper.spec, want, user_rules.settle(keeper))
    if keeper.avoid or (keeper.is_told_to_end and (keeper.root.seat or may_retry)):
        return
    try:
        hidden = secrets.drop(keeper.root, history.attempt)
    except OSError as error:
        complain("the secrets cannot be removed: %s" % error)
        return
    if hidden:
        keeper.ledger.note("masked", history.attempt, names=hidden)


def seal(keeper: Keeper) -> bool:
    """Take the final manifest and write it; False if the disk does not take it and we are told to end."""
    from sojourn.box.run import roster

    while True:
        number = keeper.ledger.history.attempt
        began = time.monotonic()
        _make_room(keeper.root)
        known = roster.hashed_before(keeper.root)
        document = roster.take_manifest(keeper.root, keeper.spec, number, units.stamp(time.time()), known)
        try:
            atomic.write_json(keeper.root.manifest, document)
            break
        except OSError as error:
            complain("manifest.json: %s" % error)
        keeper.listen(_FULL_DISK_S)
        if keeper.is_told_to_end or next_attempt(keeper):
            return not keeper.is_told_to_end
    owed = [row for row in document["files"] if row["role"] == "output"]
    keeper.ledger.note(
        "sealed",
        number,
        manifest=document["digest"],
        files=len(owed),
        bytes=sum(row["bytes"] for row in owed),
        missing=document["missing"],
        refused=[row["path"] for row in document["refused"]],
        unnamed=[row["path"] for row in document["unnamed"][:_TOLD]],
        seconds=round(time.monotonic() - began, 3),
    )
    prepare.drop_scratch(keeper.root, is_needed=keeper.ledger.history.state != "succeeded")
    return True


def _make_room(root: Root) -> None:
    """Free the manifest's reserve: a file's worth of blocks, and an inode if none is left."""
    try:
        os.unlink(root.manifest_room)
    except OSError:
        return


def _stand_alone() -> None:
    """Own session, no folder in use, no terminal: nothing of our parent may take us along when it ends."""
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:  # we lead a process group; a child does not
            if os.fork():
                os._exit(0)
            os.setsid()
    os.chdir("/")
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one: this very number
    try:
        with open("/proc/self/comm", "wb") as f:
            f.write(b"sojourn-keeper")
    except OSError:
        return
