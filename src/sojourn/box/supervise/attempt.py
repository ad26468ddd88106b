"""One attempt from claim to end: prepare, start, watch, record; or continue one started by an earlier keeper."""

from __future__ import annotations

import os
import signal
import time

from sojourn.box.run import lastwords, locks, secrets
from sojourn.box.run.log_progress import LogProgress
from sojourn.box.run.progress import Progress
from sojourn.box.run.root import read_fields, read_spec
from sojourn.box.supervise import ending, environment, persist, prepare, snapshots, start
from sojourn.box.supervise.ending import Exit
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.supervise.watch import Watch
from sojourn.box.system import disk, machine, marks, members, process
from sojourn.box.trackers.files import Files
from sojourn.wire import units
from sojourn.wire.mask import Mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping

_LEAVE_S = 10.0  # the most time that a payload's leftovers get between SIGTERM and SIGKILL
_LOCK_S = 15.0
_BEGIN_S = 30.0
_BOTH_S = 0.5


def begin(keeper: Keeper, number: int) -> None:
    """Start attempt `number`, with the code requested last, and see it to its end.

    Raises: OSError if not even the intent can be written, ValueError if that code is unreadable.
    """
    keeper.spec = read_spec(keeper.root)
    if not _note_attempt(keeper, number):
        raise OSError("events.jsonl cannot be written; attempt %d was not started" % number)
    keeper.sign()
    keeper.is_tidy = False
    try:
        os.mkdir(keeper.root.attempt(number))
    except FileExistsError:
        if number == keeper.claimed:
            _make_and_watch(keeper, number)
            return
        # Locks may not reach across machines, but this folder does: somebody else owns this fencing token.
        keeper.ledger.note("refused", number, why="attempts/%d was claimed by another keeper" % number)
        return
    _make_and_watch(keeper, number)


def go_on(keeper: Keeper) -> None:
    """Take over the last attempt, which has no recorded end: adopt it, record its end, or prepare it again."""
    history, root = keeper.ledger.history, keeper.root
    number = history.attempt
    was_here = history.begun.get("boot_id", "") == machine.boot_id() and history.begun.get("host") == machine.host()
    was_here = was_here and str(history.begun.get("seat") or "") == root.seat
    if not history.is_prepared:
        _go_on_unprepared(keeper, number)
        return
    begun = _await_begun(keeper, number) if was_here else read_fields(root.begun(number))
    pid, started = begun.get("pid", 0), begun.get("start", 0)
    shim = begun.get("shim") or {}
    if was_here and pid and not history.started:
        keeper.ledger.note("started", number, pid=pid, start=started, pgid=begun.get("pgid", pid), shim=shim)
    # A shim outlives its payload until it has recorded the end: while it lives, the record may still come.
    shim_lives = process.is_alive(shim.get("pid", 0), shim.get("start", 0))
    if was_here and pid and (shim_lives or process.is_alive(pid, started)):
        _adopt(keeper, Watch(keeper, number, pid, started, shim))
        return
    record = read_fields(root.exit(number))
    if record:
        _last_progress(keeper, number)
        _finish(keeper, number, Exit(record.get("rc"), record.get("signal"), "shim"), _lived_s(keeper, record), 0)
    elif was_here and locks.is_held(root):
        _adopt_orphans(keeper, number)
    else:
        _last_progress(keeper, number)
        _finish(keeper, number, Exit(None, None, "unknown"), history.lived_s, 0, _whereabouts(keeper))


def _last_progress(keeper: Keeper, number: int) -> None:
    """The payload's last report of its progress, from when no keeper was there."""
    root = keeper.root
    log = LogProgress(root.log(number), str(keeper.spec.get("progress") or ""), keeper.spec.get("argv") or ())
    files = Files((root.attempt(number), root.checkpoints), root.begun(number))
    progress = Progress(root.progress(number), log, files)
    if progress.look(is_last=True):
        keeper.ledger.note("beat", number, progress=progress.told())
        for found in progress.saved_since(keeper.ledger.history.checkpoint):
            keeper.ledger.note("checkpoint", number, **found)


def close(keeper: Keeper, record: Dict[str, Any], detail: str) -> None:
    """Record the end of the last attempt, which ran where we cannot look: by its shim's `record`, else by `detail`."""
    history = keeper.ledger.history
    _last_progress(keeper, history.attempt)
    if record:
        _finish(
            keeper, history.attempt, Exit(record.get("rc"), record.get("signal"), "shim"), _lived_s(keeper, record), 0
        )
    else:
        _finish(keeper, history.attempt, Exit(None, None, "unknown"), history.lived_s, 0, detail)


def _make_and_watch(keeper: Keeper, number: int) -> None:
    root, spec, history = keeper.root, keeper.spec, keeper.ledger.history
    if start.why_stop(keeper, number):
        _cut_short(keeper, number, start.why_stop(keeper, number))
        return
    if root.seat:
        from sojourn.box.supervise import node_check

        against = node_check.check(keeper, number)
        if against is not None:
            keeper.avoid = against.nodes
            state = "lost" if against.nodes else "failed"
            end(keeper, number, state, why="preflight", by="keeper", detail=against.why)
            return
    lock = -1
    try:
        lock = _clear_the_field(keeper)
        persist.park(root, spec)
        copied = prepare.working_copy(root, spec, number)
        handed = persist.hand_over(root, spec, number)
        setup = start.run_setup(keeper, number, lock)
        if setup.stopped_by:
            _cut_short(keeper, number, setup.stopped_by)
            return
        variables = environment.variables(root, spec, number, keeper.groups.cpu_quota(), history)
        if handed.get("resumes"):
            variables["SOJOURN_RESUME_FROM"] = os.path.join(root.path, handed["resumes"])
        argv = environment.payload_argv(spec, setup.folder, is_resumed="resumes" in handed)
        told = {"code": spec.get("code"), "copied": copied, "setup": setup.told()}
        if not keeper.ledger.note("prepared", number, **told, **handed):
            raise prepare.Unprepared("events.jsonl cannot be written: the disk is full")
        snapshots.reserve(keeper, number)  # a payload can fill the disk in its first instant
        watch = start.start(keeper, number, argv, variables, lock)
    except prepare.Unprepared as error:
        end(keeper, number, "failed", why=error.stage, by="keeper", detail=str(error), rc=error.rc)
        return
    except OSError as error:
        end(keeper, number, "failed", why="prepare", by="keeper", detail=str(error))
        return
    finally:
        if lock >= 0:
            os.close(lock)  # from here on the shim and what it started hold it
    keeper.ledger.note("started", number, pid=watch.pid, start=watch.start, pgid=watch.pid, shim=watch.shim)
    _see_to_its_end(keeper, watch)


def _cut_short(keeper: Keeper, number: int, why: str) -> None:
    state = {"stop": "cancelled", "shutdown": "preempted"}.get(why, "timeout")
    end(keeper, number, state, why=why, by="keeper", detail="stopped before it started")


def _go_on_unprepared(keeper: Keeper, number: int) -> None:
    """Only its setup ever ran. On the same machine it is prepared again; elsewhere the next attempt is."""
    begun = keeper.ledger.history.begun
    if begun.get("host") != machine.host():
        end(keeper, number, "lost", by="unknown", detail="began on %s and was never started" % begun.get("host"))
        return
    try:
        os.mkdir(keeper.root.attempt(number))
    except FileExistsError:
        pass  # ours: only we hold the lock, and it names this machine
    _make_and_watch(keeper, number)


def _await_begun(keeper: Keeper, number: int) -> Mapping[str, Any]:
    """exits/N.begun.json; a shim that was just starting when its keeper died gets time to write it."""
    deadline = time.monotonic() + _BEGIN_S
    while True:
        begun = read_fields(keeper.root.begun(number)) or keeper.ledger.history.started
        if begun or not locks.is_held(keeper.root) or time.monotonic() > deadline:
            return begun
        keeper.listen(0.05)


def _adopt(keeper: Keeper, watch: Watch) -> None:
    keeper.ledger.note("adopted", watch.number, keeper=keeper.me, pid=watch.pid, start=watch.start)
    keeper.sign()
    _see_to_its_end(keeper, watch)


def _adopt_orphans(keeper: Keeper, number: int) -> None:
    """The payload's first process is gone with its shim, but something it started lives: it runs on undisturbed."""
    eldest, began = members.eldest_holder(keeper.root.payload_lock)
    watch = Watch(keeper, number, eldest, began, {})
    watch.is_for_orphans = True
    _adopt(keeper, watch)


def _see_to_its_end(keeper: Keeper, watch: Watch) -> None:
    exit = watch.run()
    if keeper.root.seat and (exit.signal == 15 or exit.rc == 143) and not keeper.ledger.history.signalled:
        keeper.listen(_BOTH_S)  # a scheduler signals all at once: it died of what we are about to receive
        if keeper.is_told_to_end:
            keeper.ledger.note("signal", watch.number, signal="TERM", why="shutdown")
    watch.last_words()
    _finish(keeper, watch.number, exit, watch.vitals.payload_s(), watch.pid)


def _finish(keeper: Keeper, number: int, exit: Exit, seconds: float, pid: int, detail: str = "") -> None:
    """Record the end at once, then end the payload's leftovers. `pid`: its session, if we watched it end."""
    history = keeper.ledger.history
    why = str(history.signalled.get("why", ""))
    kills, kills_before = keeper.groups.oom_kills(), history.begun.get("oom_kill")
    delta = max(0, kills - kills_before) if isinstance(kills, int) and isinstance(kills_before, int) else 0
    is_cut = exit.rc == 0 and lastwords.tells_of_being_cut(keeper.root, number, bool(why))
    state = ending.classify_exit(exit, why, delta, is_cut)
    if is_cut and state == "preempted":
        detail = "ended by a SIGTERM before it was done (exit status 0)"
    if why == "walltime" and state == "preempted" and exit.rc != ending.RUN_ME_AGAIN and not _has_saved(keeper, number):
        state, detail = "timeout", "nothing was saved before it: ask for more time, or save more often"
    elif why == "pruned" and state == "cancelled":
        detail = str(keeper.stop_request(number).get("detail") or "pruned")
    elif why == "shutdown" and state == "preempted" and keeper.root.seat:
        detail = "its scheduler told it to end (%s)" % ending.words(exit)
    end(
        keeper,
        number,
        state,
        why=why,
        by=exit.by,
        rc=exit.rc,
        signal=exit.signal,
        seconds=round(seconds, 3),
        oom_kill_delta=delta,
        detail=detail or ending.words(exit),
    )
    tidy(keeper, pid)


def _has_saved(keeper: Keeper, number: int) -> bool:
    """Whether attempt `number` left something to resume from: our own checkpoint or, for `resume:`, any other."""
    history = keeper.ledger.history
    if history.has_saved or not keeper.spec.get("resume_argv"):
        return history.has_saved
    try:
        return persist.has_saved(keeper.root, keeper.spec, number, units.unstamp(str(history.begun["at"])))
    except (KeyError, ValueError):
        return False


def end(keeper: Keeper, number: int, state: str, **fields: Any) -> None:
    """Record the end of an attempt."""
    told: Dict[str, Any] = {"rc": None, "signal": None, "seconds": 0.0, "oom_kill_delta": 0, "why": "", "detail": ""}
    told.update(fields)
    keeper.ledger.note("ended", number, state=state, **told)
    said = "" if state in ("succeeded", "cancelled") else lastwords.of_log(keeper.root, number)
    if said:  # a separate event: on a full disk the short one may still fit
        keeper.ledger.note("said", number, text=said, room=disk.room(keeper.root.path))


def tidy(keeper: Keeper, sid: int = 0) -> None:
    """End what the last attempt left running, once: nothing may write into a sealed manifest's files, or share the GPU
    with the next attempt. Under every batch system, a job's processes end with the job.

    `sid`: the payload's session, 0 if another may now have that number.
    """
    snapshots.at_end(keeper)  # before anything is ended: who is still there is evidence
    _end_what_is_left(keeper, sid)
    persist.mend_after(keeper)


def _end_what_is_left(keeper: Keeper, sid: int) -> None:
    history = keeper.ledger.history
    number = history.attempt
    if keeper.is_tidy or not history.started or history.begun.get("boot_id") != machine.boot_id():
        return
    keeper.is_tidy = True
    shim = int((history.started.get("shim") or {}).get("pid", 0))
    left = members.of_attempt(keeper.root.path, number, sid, {shim})
    if not left:
        return
    what = Mask(secrets.read_secrets(keeper.root)).over_text(process.command(left[0]))[:100]
    keeper.ledger.note("signal", number, signal="TERM", why="left behind by the run: %d (%s)" % (len(left), what))
    deadline = time.monotonic() + min(keeper.grace_s, _LEAVE_S)
    members.send(left, signal.SIGTERM)
    while left and time.monotonic() < deadline:
        keeper.listen(0.05)
        left = [pid for pid in left if process.is_alive(pid, 0)]
    members.send(members.of_attempt(keeper.root.path, number, sid, {shim}), signal.SIGKILL)


def _clear_the_field(keeper: Keeper) -> int:
    """The payload lock, taken; an earlier attempt's living leftovers are ended first. Raises: Unprepared, OSError."""
    deadline = time.monotonic() + _LOCK_S
    told = False
    while True:
        lock = locks.take_lock(keeper.root)
        if lock >= 0:
            return lock
        holders = members.holders(keeper.root.payload_lock)
        if time.monotonic() > deadline:
            raise prepare.Unprepared("processes of an earlier attempt are alive and cannot be ended: pids %s" % holders)
        members.send(holders, signal.SIGKILL if told else signal.SIGTERM)
        keeper.listen(0.1 if not told else 0.5)
        told = time.monotonic() > deadline - _LOCK_S + min(keeper.grace_s, _LEAVE_S)


def _note_attempt(keeper: Keeper, number: int) -> bool:
    fields = machine.identity()
    if keeper.root.seat:
        fields["seat"] = keeper.root.seat
    fields["keeper"] = keeper.me
    fields["token"] = read_fields(keeper.root.want).get("token")
    fields["limits"] = {
        "cpus": keeper.groups.cpu_quota() or os.cpu_count(),
        "memory_bytes": keeper.groups.memory_limit_bytes() or machine.memory_bytes(),
        "cgroup": keeper.groups.limits(),
    }
    fields.update(marks.marks(keeper.root.path, keeper.groups))
    fields["clock_offset"] = None  # evidence only; a client that knows better compares `now` of its calls
    return keeper.ledger.note("attempt", number, **fields)


def _lived_s(keeper: Keeper, record: Dict[str, Any]) -> float:
    """How long a payload lived that ended without us: between two stamps of the box's clock, or by its last beat."""
    history = keeper.ledger.history
    try:
        between_s = units.unstamp(str(record["ended"])) - units.unstamp(str(history.started["at"]))
    except (KeyError, ValueError):
        return history.lived_s
    return max(between_s, history.lived_s)


def _whereabouts(keeper: Keeper) -> str:
    begun = keeper.ledger.history.begun
    if begun.get("host") != machine.host():
        return "ran on %s; this is %s" % (begun.get("host"), machine.host())
    if begun.get("boot_id") != machine.boot_id():
        return "the machine was restarted"
    if begun.get("pid1_start") != machine.pid1_start():
        return "the container was restarted"
    return ""
