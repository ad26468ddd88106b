"""A scheduler's own record of a finished attempt: recorded as its end, or beside the end it has."""

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
    """`run`, `attempt`; `native`: the scheduler's id of the job, all of whose seats are over, "" if it took none;
    `by`: the scheduler;
    `state` ("" if its record says only that it is over) and `detail`.

    Idempotent. Answer: noted ("ended", "judged", or "" if this attempt is not of that job, or was judged before). A
    separate process seals a new end; this does not wait for it. Refused: busy.
    """
    root = find_root(box, str(request["run"]))
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("busy", "another process is working on it") from None
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
            return ""  # a keeper has started it
        seated = {"seat": "%s:" % told["native"]} if told["native"] else {}  # a refused one has no job
        ledger.note("attempt", number, token=read_fields(root.want).get("token"), **seated, **machine.identity())
        ended = {"rc": None, "signal": None, "seconds": 0.0, "oom_kill_delta": 0, "why": "", "detail": told["detail"]}
        ledger.note("ended", number, state=told["state"] or "lost", by=told["by"], **ended)
        ledger.note("judged", number, **told)
        return "ended"
    if seat.job_of(history.begun.get("seat")) != told["native"]:
        return ""
    if not history.ended:
        was_asked = read_fields(root.stop).get("why") == "stop" and read_number(root.stop, "attempt") >= number
        if was_asked and told["state"] in ("", "killed"):
            told["state"] = "cancelled"  # the scheduler was asked to end it before it could read the request
        record = read_fields(root.exit(number))
        ended = {"rc": record.get("rc"), "signal": record.get("signal"), "seconds": history.lived_s}
        ended.update(oom_kill_delta=0, why="", detail=told["detail"])
        ledger.note("ended", number, state=told["state"] or "lost", by=told["by"], **ended)
        ledger.note("judged", number, **told)
        return "ended"
    ledger.note("judged", number, **told)
    return "judged"
