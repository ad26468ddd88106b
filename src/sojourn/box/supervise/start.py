"""Starting processes for an attempt: its `setup`, and the shim with the payload."""

from __future__ import annotations

import os
import signal
import sys
import time

from sojourn.box.supervise import environment, prepare
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.supervise.watch import Watch
from sojourn.box.system import members, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_BEGIN_S = 60.0


class Setup:
    """The result of `setup`: the environment's folder ("" = the job has none), or who stopped it."""

    def __init__(self, folder: str = "", seconds: float = 0.0, reused: bool = False, stopped_by: str = "") -> None:
        self.folder = folder
        self.seconds = seconds
        self.reused = reused
        self.stopped_by = stopped_by

    def told(self) -> Dict[str, Any] | None:
        """For the `prepared` event; None for a job without `setup`."""
        if not self.folder:
            return None
        return {"digest": os.path.basename(self.folder), "seconds": round(self.seconds, 3), "reused": self.reused}


def run_setup(keeper: Keeper, number: int, lock: int) -> Setup:
    """Make the environment of the job's `setup` once; later attempts and runs reuse it. Output: the attempt's log.

    Raises: Unprepared (it failed), OSError.
    """
    folder = environment.setup_folder(keeper.root.base, keeper.spec)
    began = time.monotonic()
    while folder and not environment.is_ready(folder):
        env_lock = environment.lock(folder)
        if env_lock < 0:  # another run of this box is making it
            keeper.listen(0.5)
            why = why_stop(keeper, number)
            if why:
                return Setup(stopped_by=why)
            continue
        try:
            if not environment.is_ready(folder):
                return _make_environment(keeper, number, folder, (lock, env_lock))
        finally:
            os.close(env_lock)
    return Setup(folder, time.monotonic() - began, reused=True)


def _make_environment(keeper: Keeper, number: int, folder: str, locks: Tuple[int, ...]) -> Setup:
    import shutil

    began = time.monotonic()
    if os.path.exists(folder):
        shutil.rmtree(folder)  # left half made by a process that died
    history = keeper.ledger.history
    variables = environment.variables(keeper.root, keeper.spec, number, keeper.groups.cpu_quota(), history)
    argv = environment.setup_argv(keeper.spec, folder)
    log = os.open(keeper.root.log(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        pid = spawn(argv, variables, keeper.root.attempt(number), locks, (log, log))
        keeper.expected.add(pid)
    finally:
        os.close(log)
    why, kill_at = "", 0.0
    while pid not in keeper.reaped:
        keeper.listen(1.0 if not why else 0.1)
        if not why:
            why = why_stop(keeper, number)
            if why:
                members.send_group(pid, signal.SIGTERM)
                kill_at = time.monotonic() + min(keeper.grace_s, 10.0)
        elif time.monotonic() > kill_at:
            members.send_group(pid, signal.SIGKILL)
    status = keeper.reaped.pop(pid)
    if why:
        return Setup(stopped_by=why)
    if status:
        rc = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        raise prepare.Unprepared("setup ended with exit status %d; its output is in the log" % rc, "setup", rc)
    environment.seal(folder, time.monotonic() - began)
    return Setup(folder, time.monotonic() - began)


def start(keeper: Keeper, number: int, argv: List[str], variables: Dict[str, str], lock: int) -> Watch:
    """Start the shim, and through it the payload; returns once the payload exists. Raises: Unprepared, OSError."""
    root = keeper.root
    ours, its = os.pipe()
    program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
    words = program + ["shim", root.path, str(number), str(its)] + argv
    try:
        shim = spawn(words, variables, root.attempt(number), (lock, its), (1, 2))
    finally:
        os.close(its)
    keeper.expected.add(shim)
    os.set_blocking(ours, False)
    watch = Watch(keeper, number, 0, 0, {"pid": shim, "start": 0}, ours)
    deadline = time.monotonic() + _BEGIN_S
    while not watch.pid:
        keeper.listen(0.2)
        watch.read_report()
        if shim in keeper.reaped or time.monotonic() > deadline:
            watch.read_report()
            if not watch.pid:
                watch.close()
                members.send([shim], signal.SIGKILL)
                raise prepare.Unprepared("the process could not be started; see logs/keeper.log", "start")
    return watch


def spawn(argv: List[str], variables: Dict[str, str], folder: str, keep: Tuple[int, ...], out: Tuple[int, int]) -> int:
    """Start argv in a new session: streams from null and to `out`, default signals, `keep` inherited.

    Raises: OSError.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for goal, source in zip((1, 2), out):
            os.dup2(source, goal)
        for fd in keep:
            os.set_inheritable(fd, True)
        os.chdir(folder)
        umask.give_back()
        os.execvpe(argv[0], argv, variables)
    except BaseException as error:  # noqa: BLE001 - a forked child must never go on as the keeper
        os.write(2, ("sojourn: cannot start %r: %s\n" % (argv[:1], error)).encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def why_stop(keeper: Keeper, number: int) -> str:
    """Why attempt `number` should not continue: stop, budget, max_duration, shutdown; "" = it may."""
    if keeper.is_told_to_end:
        return "shutdown"
    stop = keeper.stop_request(number)
    return str(stop.get("why") or "stop") if stop else ""
