"""The tiny parent of a payload: starts it, waits for it, and records how it ended, whatever happens to the keeper.

It lives in its own session, ignores the signals that end other processes, and adopts the payload's orphans so that all
can be found below it. Loads as little as possible: it stays beside every payload for hours.
"""

from __future__ import annotations

import os
import signal
import time

from sojourn.box.run.root import Root
from sojourn.box.system import machine, process, umask
from sojourn.box.system.wake import become_subreaper
from sojourn.wire import atomic, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

_RESERVE_BYTES = 4096  # room for the record, reserved early: the disk may be full at the end
_TRIES = 30
_GO = b"g"
_DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main(args: List[str]) -> int:
    """`shim ROOT ATTEMPT REPORT_FD ARGV...`: run ARGV as attempt ATTEMPT. The caller has set environment and folder.

    Writes two lines to REPORT_FD: "begun PID START" and "ended RC SIGNAL" (RC or SIGNAL is "-"). The same goes to
    exits/N.begun.json and exits/N.json; the second is fsynced before the line is written, if the disk takes it.
    """
    root, attempt, report = Root(args[0]), int(args[1]), int(args[2])
    argv = args[3:]
    os.set_inheritable(report, False)
    if os.getsid(0) != os.getpid():
        os.setsid()
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    _reserve(root.exit(attempt) + ".room")

    gate_read, gate_write = os.pipe()
    deaf_read, deaf_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_write)
        _become(argv, root.log(attempt), gate_read, deaf_write)
    os.close(deaf_write)
    os.read(deaf_read, 1)  # from "begun" on, signals reach it
    os.close(deaf_read)
    start = process.start_of(pid)
    _note_begun(root, attempt, pid, start)
    _say(report, "begun %d %d" % (pid, start))
    os.write(gate_write, _GO)
    os.close(gate_write)
    os.close(gate_read)

    rc, by = _wait(pid)
    ended = units.stamp(time.time())
    text = '{"attempt":%d,"ended":"%s","pid":%d,"rc":%s,"signal":%s,"start":%d}\n'
    record = text % (attempt, ended, pid, _json(rc), _json(by), start)
    is_on_disk = _record(root.exit(attempt), record.encode("ascii"))
    _say(report, "ended %s %s" % ("-" if rc is None else rc, "-" if by is None else by))
    for _ in range(0 if is_on_disk else _TRIES):
        time.sleep(1)
        if _record(root.exit(attempt), record.encode("ascii")):
            break
    return 0


def _become(argv: List[str], log: str, gate_read: int, deaf_write: int) -> None:
    """In the child: own session and default signals, after which `deaf_write` is closed; streams to the log; once its
    start is on record, the payload."""
    try:
        os.setsid()
        for number in _DEAF_TO + (signal.SIGPIPE, signal.SIGXFSZ):  # the last two are Python's own defaults
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(deaf_write)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError:
            out = os.open(os.devnull, os.O_WRONLY)  # a full disk costs the output, not the run
        os.dup2(out, 1)
        os.dup2(out, 2)
        if os.read(gate_read, 1) == _GO:  # empty if the shim died before recording the start
            umask.give_back()
            os.execvp(argv[0], argv)
    except BaseException as error:  # noqa: BLE001 - a forked child must never go on as the shim
        os.write(2, ("sojourn: cannot start %r: %s\n" % (argv[:1], error)).encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def _wait(pid: int) -> Tuple[int | None, int | None]:
    """(rc, None) or (None, signal) of `pid`; other children are orphans of the payload and only reaped."""
    while True:
        done, status = os.waitpid(-1, 0)
        if done == pid:
            return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def _note_begun(root: Root, attempt: int, pid: int, start: int) -> None:
    me = os.getpid()
    text = '{"attempt":%d,"boot_id":"%s","pgid":%d,"pid":%d,"shim":{"pid":%d,"start":%d},"start":%d}\n'
    line = text % (attempt, machine.boot_id(), pid, pid, me, process.start_of(me), start)
    try:
        # Useful only to a keeper of this boot, so the page cache is durable enough.
        atomic.write(root.begun(attempt), line.encode("ascii"), durable=False)
    except OSError as error:
        _complain("exits/%d.begun.json: %s" % (attempt, error))


def _reserve(path: str) -> None:
    try:
        atomic.write(path, b" " * _RESERVE_BYTES)
    except OSError as error:
        _complain("no room reserved for the exit record: %s" % error)


def _record(path: str, data: bytes) -> bool:
    """Write the record into the reserved room, and give it its name; False if the disk does not take it."""
    room = path + ".room"
    try:
        fd = os.open(room, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(fd, data.ljust(_RESERVE_BYTES), 0)  # JSON may end in blanks; no new block is needed
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(room, path)
        atomic.sync_folder(os.path.dirname(path))
    except OSError as error:
        _complain("exit record: %s" % error)
        return False
    return True


def _say(fd: int, line: str) -> None:
    try:
        os.write(fd, line.encode("ascii") + b"\n")
    except OSError:
        return  # the keeper is gone; the record on disk suffices


def _json(value: object) -> str:
    return "null" if value is None else str(value)


def _complain(text: str) -> None:
    try:
        os.write(2, ("shim: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:
        return
