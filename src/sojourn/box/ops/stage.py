"""Copies a tree to a fast disk of this box, in a process of its own that outlives the call."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import time

from sojourn.box.call import Box, Refused
from sojourn.box.run import places
from sojourn.box.stage import records
from sojourn.box.stage.records import Work
from sojourn.box.system import process, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

# File systems that no disk of the box is behind; what else comes by FUSE is taken for one of them as well.
_FAR = frozenset(
    """9p afs beegfs ceph cifs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs pvfs2 smb3 smbfs virtiofs
    wekafs""".split()
)
_NEAR_FUSE = frozenset(("fuseblk", "fuse.fuse-overlayfs"))
_LOG_BYTES = 2000
_LOCK_TRIES, _LOCK_WAIT_S = 20, 0.05


def stage(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`act`: "begin" (idempotent: joins a process that copies the same), "look" or "stop". `source`, `target`: paths on
    this box, ~ allowed; `token`: of a new job; `streams`, `rehash`, `any_disk`: as the command has them.

    Answer: `state` (running, ended, dead: it was killed; idle: nothing was ever begun), `token` of the job that it is
    about, `target`, `work` (the folder with its records), `progress`, `end`, `source_mount` and `mount`.
    Refused: no-source, bad-target, same-disk, far-disk, stage-busy.
    """
    act = str(request.get("act") or "look")
    source, target = _source(request, act), _full(request, "target")
    target = os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
    work = Work(target)
    _check_own(work)
    rows = places.mount_rows()
    answer = {"target": target, "work": work.path, "mount": _mount(target, rows), "source_mount": _mount(source, rows)}
    token = str(request.get("token") or "")
    if act == "begin":
        token = _begin(box.keeper, work, source, token, request, answer)
    elif act == "stop":
        _stop(work)
    answer.update(_state(work, token))
    return answer


def _full(request: Dict[str, Any], key: str) -> str:
    path = os.path.expanduser(str(request[key]))
    if not os.path.isabs(path) or "\0" in path:
        raise Refused("bad-target", "%s is not an absolute path" % path)
    return os.path.normpath(path)


def _source(request: Dict[str, Any], act: str) -> str:
    source = os.path.realpath(_full(request, "source"))
    if act == "begin":
        try:
            kind = os.stat(source).st_mode
        except OSError as error:
            raise Refused("no-source", "%s: %s" % (request["source"], error.strerror)) from error
        if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
            raise Refused("no-source", "%s is no folder and no file" % request["source"])
    return source


def _mount(path: str, rows: Any) -> Dict[str, str]:
    """{"point","kind","source"} of the mount that holds a path, or would."""
    found = places.mount_of(os.path.realpath(path), rows)
    return {"point": found.point, "kind": found.kind, "source": found.source} if found else dict(_NO_MOUNT)


_NO_MOUNT = {"point": "/", "kind": "", "source": ""}


def _begin(keeper: str, work: Work, source: str, token: str, request: Dict[str, Any], answer: Dict[str, Any]) -> str:
    """Start the process, or find the one that copies the same; the token of its job. Raises: Refused, OSError."""
    if _end(work, work.is_held()).get("token") == token:
        return token  # the answer to the first question was lost
    _check_target(work, source)
    if not request.get("any_disk"):
        _check_disks(work, source, answer)
    with umask.Theirs():
        os.makedirs(os.path.dirname(work.target), exist_ok=True)
    if not os.path.isdir(work.path):
        os.mkdir(work.path, 0o700)
    job = {"source": source, "token": token, "rehash": bool(request.get("rehash"))}
    lock = _lock(work)
    if lock is None:
        there = work.read("job.json")
        if not there:
            raise Refused("stage-busy", "another call is just beginning to copy to %s" % work.target)
        if there.get("source") != source or there.get("rehash") != job["rehash"]:
            raise Refused("stage-busy", "%s is just being copied there" % there.get("source"))
        return str(there.get("token"))
    try:
        if not records.is_published(work) and _is_taken(work.target):
            raise Refused("bad-target", "%s exists, and is not a copy that `stage` made" % work.target)
        for name in ("end.json", "progress.json", "stopped.json"):
            if os.path.lexists(work.under(name)):
                os.unlink(work.under(name))
        work.write("job.json", dict(job, streams=max(1, min(int(request.get("streams") or 8), 64))))
        _spawn(keeper, work, lock)
    finally:
        os.close(lock)
    return token


def _lock(work: Work) -> int | None:
    """The lock; None where a process copies. One that only looks, begins or has just ended is waited for.

    Raises: OSError.
    """
    for _ in range(_LOCK_TRIES):
        lock = work.lock()
        if lock is not None or _is_copying(work):
            return lock
        time.sleep(_LOCK_WAIT_S)
    return work.lock()


def _is_copying(work: Work) -> bool:
    job, found = work.read("job.json"), work.read("process.json")
    pid, start = int(found.get("pid") or 0), int(found.get("start") or 0)
    has_ended = work.read("end.json").get("token") == job.get("token")
    return bool(job) and not has_ended and pid > 1 and bool(start) and process.is_alive(pid, start)


def _check_target(work: Work, source: str) -> None:
    target = work.target
    if os.path.islink(target):
        raise Refused("bad-target", "%s is a link" % target)
    if os.path.ismount(target):
        raise Refused("bad-target", "%s is the root of a disk: name a folder in it" % target)
    for inner, outer in ((target, source), (source, target)):
        if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
            raise Refused("bad-target", "%s lies in %s" % (inner, outer) if inner != outer else "it is the source")


def _check_own(work: Work) -> None:
    """Refuse records that another user may have planted, in a folder that all may write to."""
    try:
        status = os.lstat(work.path)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise Refused("bad-target", "%s belongs to somebody else, or is no folder" % work.path)


def _is_taken(target: str) -> bool:
    if not os.path.lexists(target):
        return False
    return not os.path.isdir(target) or bool(os.listdir(target))


def _check_disks(work: Work, source: str, answer: Dict[str, Any]) -> None:
    """Refuse where nothing would be gained: the same disk, or one that is not of this box."""
    parent = os.path.dirname(work.target)
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    here, there = answer["mount"], answer["source_mount"]
    is_same_device = here["source"] == there["source"] and here["source"].startswith("/dev/")
    if os.stat(parent).st_dev == os.stat(source).st_dev or is_same_device:
        raise Refused("same-disk", "%s and %s are on the same disk (%s)" % (source, work.target, here["point"]))
    kind = here["kind"]
    if kind in _FAR or (kind.startswith("fuse") and kind not in _NEAR_FUSE):
        raise Refused("far-disk", "%s is on %s (%s), not on a disk of this box" % (work.target, here["point"], kind))


def _spawn(keeper: str, work: Work, lock: int) -> None:
    """Start the process in a session of its own, with the lock as its own. Raises: OSError."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    log = os.open(work.under("log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    argv = [sys.executable, "-I", "-S", keeper, "stage", work.target]
    child = os.fork()
    if child:
        os.close(null)
        os.close(log)
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        pid = os.fork()
        if pid:
            work.write("process.json", {"pid": pid, "start": process.start_of(pid)})
            os._exit(0)
        for goal, opened in ((0, null), (1, log), (2, log)):
            os.dup2(opened, goal)
        os.set_inheritable(lock, True)
        os.chdir("/")
        os.execv(argv[0], argv)
    except BaseException as error:  # noqa: BLE001 - a forked child must never answer in our place
        os.write(2, ("sojourn: cannot start %r: %s\n" % (argv[:1], error)).encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def _stop(work: Work) -> None:
    """SIGTERM to the process; what it copied stays for the next call. Clients that wait for it are told."""
    found = work.read("process.json")
    pid, start = int(found.get("pid") or 0), int(found.get("start") or 0)
    if pid > 1 and start and work.is_held() and process.is_alive(pid, start):
        work.write("stopped.json", {"token": work.read("job.json").get("token")})
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # one that is held could not end
        for _ in range(100):
            if not work.is_held():
                return
            time.sleep(0.05)


def _state(work: Work, token: str) -> Dict[str, Any]:
    held = work.is_held()  # before the end is read: it is written before the lock is let go
    job, end = work.read("job.json"), _end(work, held)
    token = token or str(job.get("token") or "")
    if end and end.get("token") == token:
        return {"state": "ended", "token": token, "end": end}
    if held:
        return {"state": "running", "token": str(job.get("token") or ""), "progress": work.read("progress.json")}
    if not job:
        return {"state": "idle", "token": token}
    return {"state": "dead", "token": token, "log": _tail(work.under("log"))}


def _end(work: Work, held: bool) -> Dict[str, Any]:
    """The end that the process wrote, or that `--stop` made of it; {} while it copies, or if it was killed."""
    end, token = work.read("end.json"), work.read("job.json").get("token")
    if held or not token or end.get("token") == token or work.read("stopped.json").get("token") != token:
        return end
    told = {"what": "failed", "message": "it was stopped by --stop", "seconds": 0.0, "token": token}
    return dict(told, problems=[], problems_count=0, left_out=[], left_out_count=0)


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _LOG_BYTES))
            return file.read().decode("utf-8", "backslashreplace").strip()
    except OSError:
        return ""
