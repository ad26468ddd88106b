"""What a scheduler's own record says of an attempt that is over: noted as its end, or beside the end it has."""

from __future__ import annotations

import fcntl
import os
import subprocess

from sojourn.box.call import Box, Refused
from sojourn.box.run.ledger import Ledger
from sojourn.box.run.root import Root, read_fields, read_number
from sojourn.box.run.want import find_root, supervise_argv
from sojourn.box.supervise import seat
from sojourn.box.system import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def judge(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`run`, `attempt`; `native`: what the scheduler calls the job, all of whose seats are over; `by`: the scheduler;
    `state` ("" where its record does not say more than that it is over) and `detail`.

    Idempotent. Answer: noted ("ended", "judged", or "" where this attempt is not of that job, or was judged before).
    An end that is new is sealed by a process of its own, which this does not wait for. Refused: busy.
    """
    root = find_root(box, str(request["run"]))
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("busy", "somebody else is at it") from None
        ledger = Ledger(root.events)
        try:
            noted = _note(root, ledger, request)
            is_sealed = ledger.history.is_sealed
        finally:
            ledger.close()
    finally:
        os.close(lock)
    if noted and not is_sealed:
        argv = supervise_argv(box, root)
        subprocess.Popen(
            argv[:-3] + ["seal"] + argv[-2:],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return {"noted": noted}


def _note(root: Root, ledger: Ledger, request: Dict[str, Any]) -> str:
    history, number = ledger.history, int(request["attempt"])
    told = {name: str(request.get(name) or "") for name in ("native", "by", "state", "detail")}
    if number < history.attempt or (number == history.attempt and history.is_judged):
        return ""
    if number > history.attempt:
        try:
            os.mkdir(root.attempt(number))
        except FileExistsError:
            return ""  # a keeper has begun it
        ledger.note(
            "attempt",
            number,
            seat="%s:" % told["native"],
            token=read_fields(root.want).get("token"),
            **machine.identity(),
        )
        ended = {"rc": None, "signal": None, "seconds": 0.0, "oom_kill_delta": 0, "why": "", "detail": told["detail"]}
        ledger.note("ended", number, state=told["state"] or "lost", by=told["by"], **ended)
        ledger.note("judged", number, **told)
        return "ended"
    if seat.job_of(history.begun.get("seat")) != told["native"]:
        return ""
    if not history.ended:
        was_asked = read_fields(root.stop).get("why") == "stop" and read_number(root.stop, "attempt") >= number
        if was_asked and told["state"] in ("", "killed"):
            told["state"] = "cancelled"  # the scheduler was asked to end it, where it could not read the request
        record = read_fields(root.exit(number))
        ended = {"rc": record.get("rc"), "signal": record.get("signal"), "seconds": history.lived_s}
        ended.update(oom_kill_delta=0, why="", detail=told["detail"])
        ledger.note("ended", number, state=told["state"] or "lost", by=told["by"], **ended)
        ledger.note("judged", number, **told)
        return "ended"
    ledger.note("judged", number, **told)
    return "judged"
