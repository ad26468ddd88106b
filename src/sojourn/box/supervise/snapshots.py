"""Snapshots kept in the root: the machine may be gone, or repaired, when somebody asks why.

While an attempt runs, all probes are asked now and then, and once more after a bad end. A separate process (`keeper
bundle --keep`), which is large and lives for a second, takes each look; the keeper only starts it.
"""

from __future__ import annotations

import os
import sys
import time

from sojourn.box.run.ledger import complain
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

ROOM_BYTES = 160 << 10  # reserved while there is room: the disk may be full at the end
_SEAL_BYTES = 32 << 10  # a manifest takes about a hundred bytes per file
BAD = frozenset(("failed", "killed", "oom", "lost", "timeout"))
_FIRST_S = 60.0
_EVERY_S = 600.0
_LIMIT_S = 20.0  # a look takes less than 2 s on a box that is not overloaded
_GONE_S = 1.0  # a killed process is gone by then, unless it hangs in the kernel


def reserve(keeper: Keeper, number: int) -> None:
    """Room for the look at the end of attempt `number`, and for the manifest. Without it they are kept only if the disk
    takes them."""
    for path, size in ((keeper.root.evidence(number) + ".room", ROOM_BYTES), (keeper.root.manifest_room, _SEAL_BYTES)):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.posix_fallocate(fd, 0, size)
            finally:
                os.close(fd)
        except OSError as error:
            complain("no room reserved in %s: %s" % (path, error))


def at_end(keeper: Keeper) -> None:
    """Keep a look at the end of the last attempt if it ended badly, on this machine, and none is kept yet; takes a
    second, and at most _LIMIT_S. Otherwise frees the reserved room. Idempotent."""
    history, root = keeper.ledger.history, keeper.root
    path = root.evidence(history.attempt)
    if not os.path.exists(path) and history.state in BAD and not keeper.is_told_to_end:
        if history.begun.get("host") == machine.host():
            _wait(keeper, _start(keeper, history.attempt, "end"))
    look = root.evidence(history.attempt, is_last=False)
    for rest in [path + ".room", look + ".tmp"] + ([] if history.state in BAD else [look]):
        try:
            os.unlink(rest)
        except OSError:
            continue


def take_snapshot(keeper: Keeper, number: int) -> None:
    """Keep a look at the machine before attempt `number` starts on it."""
    _wait(keeper, _start(keeper, number, "look"))


class Snapshots:
    """The looks while one attempt runs, one at a time."""

    def __init__(self, keeper: Keeper, number: int) -> None:
        self._keeper = keeper
        self._number = number
        self._next_s = time.monotonic() + _FIRST_S
        self._pid = 0
        self._begun_s = 0.0

    def tick(self, now_s: float) -> None:
        """Start one if due, give up one that hangs. `now_s`: monotonic."""
        if self._pid and (self._pid in self._keeper.reaped or now_s - self._begun_s > _LIMIT_S):
            self.drop()
        if now_s >= self._next_s and not self._pid:
            self._next_s, self._begun_s = now_s + _EVERY_S, now_s
            self._pid = _start(self._keeper, self._number, "look")

    def drop(self) -> None:
        """End any child of ours."""
        _let_go(self._keeper, self._pid)
        self._pid = 0


def _start(keeper: Keeper, number: int, why: str) -> int:
    """Start a look; its pid, 0 if no process can be started."""
    program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
    argv: List[str] = program + ["bundle", "--keep", why, keeper.root.path, str(number)]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = os.posix_spawn(
            sys.executable, argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1)]
        )
    except OSError as error:
        complain("the machine could not be inspected: %s" % error)
        return 0
    finally:
        os.close(null)
    keeper.expected.add(pid)
    return pid


def _wait(keeper: Keeper, pid: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while pid and pid not in keeper.reaped and time.monotonic() < deadline:
        keeper.listen(0.5)
    _let_go(keeper, pid)


def _let_go(keeper: Keeper, pid: int) -> None:
    if not pid or keeper.reaped.pop(pid, None) is not None:
        return
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
    deadline = time.monotonic() + _GONE_S
    while pid not in keeper.reaped and time.monotonic() < deadline:
        keeper.listen(0.1)
    keeper.expected.discard(pid)
    keeper.reaped.pop(pid, None)
