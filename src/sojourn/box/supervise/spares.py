"""Spare copies of checkpoints that a script writes over in place: killed in the middle of that, it has none left.

While an attempt runs, `keeper spare` (a process of its own, for one copy) keeps the last whole version of each such
file; not where the job says `protect: saves`. After a bad end, `mend` puts it back where the original is torn. A script
that gives each checkpoint a name of its own needs no spares: the one before is still there.
"""

from __future__ import annotations

import os
import sys
import time

from sojourn.box.run import copying, saved_files
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root
from sojourn.box.supervise.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Sequence

    from sojourn.box.run.saved_files import Saved

_SHARE = 100  # looking takes at most this part of the time
_SETTLED_NS = 500_000_000  # a file that was not written to for so long is not being written
_ROOM_BYTES = 1 << 30  # stays free beside two copies
_MOST_KNOWN = 10_000
_SOON_S = 0.5  # how often the files that may need a spare are looked at, once there are some
_MOST_WATCHED = 20


class Spares:
    """Of one attempt that runs; at most one copy is made at a time."""

    def __init__(self, keeper: Keeper, number: int) -> None:
        self._keeper = keeper
        self._folder = keeper.root.attempt(number)
        self._number = number
        # When the whole working copy is looked at again: never, where `protect: saves` lets nothing be torn.
        self._next_s = float("inf") if keeper.spec.get("protect") == "saves" else 0.0
        self._known: List[Saved] = []  # what it held when it was looked at last, the newest of it
        self._pid = 0
        self._first: Dict[str, int] = {}  # the mtime under which each path was first seen
        self._spared: Dict[str, int] = {}  # of each path, the mtime of the version that was copied last

    def tick(self, now_s: float) -> None:
        """Start a copy where one is due. `now_s`: monotonic."""
        if self._pid in self._keeper.reaped:
            self._keeper.reaped.pop(self._pid)
            self._pid = 0
        if self._pid:
            return
        if now_s >= self._next_s:
            self._known = saved_files.find(self._folder)
            self._next_s = now_s + max(self._keeper.beat_s, _SHARE * (time.monotonic() - now_s))
        else:
            self._known = [*map(self._again, self._known[:_MOST_WATCHED]), *self._known[_MOST_WATCHED:]]
        due = self._due(self._known)
        if due is not None:
            self._spared[due.path] = due.mtime_ns
            self._pid = _start(self._keeper, self._number, due.path)

    def next_s(self, now_s: float) -> float:
        """When to call `tick` again, by the same clock."""
        return now_s + _SOON_S if any(not one.is_folder for one in self._known) else self._next_s

    def _again(self, one: Saved) -> Saved:
        try:
            found = os.stat(os.path.join(self._folder, one.path))
        except OSError:
            return one
        return one if one.is_folder else one._replace(mtime_ns=found.st_mtime_ns, bytes=found.st_size)

    def drop(self) -> None:
        """End the copy that is being made: its payload has ended."""
        if self._pid and self._pid not in self._keeper.reaped:
            try:
                os.kill(self._pid, 9)
            except ProcessLookupError:
                pass
            while self._pid not in self._keeper.reaped:
                self._keeper.listen(0.1)
        self._keeper.reaped.pop(self._pid, None)
        self._pid = 0

    def _due(self, found: Sequence[Saved]) -> Saved | None:
        """The newest file at rest that has no spare yet and needs one."""
        if len(self._first) < _MOST_KNOWN:
            for one in found:
                self._first.setdefault(one.path, one.mtime_ns)
        now_ns = time.time_ns()
        for one in found:
            is_new = one.mtime_ns != self._spared.get(one.path)
            if is_new and not one.is_folder and now_ns - one.mtime_ns > _SETTLED_NS and self._is_needed(one, found):
                return one
        return None

    def _is_needed(self, one: Saved, found: Sequence[Saved]) -> bool:
        """It was written over, or nothing beside it could stand in for it."""
        beside = [other for other in found if os.path.dirname(other.path) == os.path.dirname(one.path)]
        return self._first.get(one.path, one.mtime_ns) != one.mtime_ns or len(beside) == 1


def mend(root: Root, number: int, spares_of: int) -> List[str]:
    """In the working copy of attempt `number`, put the spares that attempt `spares_of` left in place of what is torn or
    gone; their paths. A torn file is kept as .torn-NAME. Raises: OSError.
    """
    folder, spares = root.attempt(number), root.spares(spares_of)
    mended = []
    for one in saved_files.find(spares):
        full, spare = os.path.join(folder, one.path), os.path.join(spares, one.path)
        if saved_files.is_whole(full) or not saved_files.is_whole(spare):
            continue
        if not os.path.lexists(full) and saved_files.find(folder, [os.path.dirname(one.path)]):
            continue  # the script removed it, and has others
        set_aside(full)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        coming = os.path.join(os.path.dirname(full), ".spare-" + os.path.basename(full))
        if os.path.lexists(coming):
            os.unlink(coming)
        copying.copy(spare, coming)
        os.rename(coming, full)
        mended.append(one.path)
    return mended


def set_aside(path: str) -> None:
    """Rename a torn checkpoint so that no script takes it for one; nothing where none is there. Raises: OSError."""
    aside = os.path.join(os.path.dirname(path), saved_files.TORN + os.path.basename(path))
    while os.path.lexists(aside):
        aside += "~"
    if os.path.lexists(path):
        os.rename(path, aside)


def drop_older(root: Root, number: int) -> None:
    """Remove the spares of attempts before `number`."""
    import shutil

    top = os.path.dirname(root.spares(0))
    for name in os.listdir(top) if os.path.isdir(top) else ():
        if name.isdigit() and int(name) < number:
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    """`keeper spare ROOT N PATH`: copy one file of attempt N to its spares, if it is whole and stays as it is
    meanwhile. 0 copied, 1 not.
    """
    root, number, path = Root(argv[0]), int(argv[1]), argv[2]
    source, goal = os.path.join(root.attempt(number), path), os.path.join(root.spares(number), path)
    coming = os.path.join(os.path.dirname(goal), ".new-" + os.path.basename(goal))
    os.nice(10)
    try:
        before = os.stat(source)
        room = os.statvfs(root.path)
        if room.f_bavail * room.f_frsize < 2 * before.st_size + _ROOM_BYTES:
            return 1
        os.makedirs(os.path.dirname(goal), mode=0o700, exist_ok=True)
        if os.path.lexists(coming):
            os.unlink(coming)
        copying.copy(source, coming)
        after = os.stat(source)
        is_same = (before.st_ino, before.st_size, before.st_mtime_ns) == (
            after.st_ino,
            after.st_size,
            after.st_mtime_ns,
        )
        if is_same and saved_files.is_whole(coming):
            os.rename(coming, goal)
            return 0
        os.unlink(coming)
    except OSError as error:
        complain("no spare of %s: %s" % (path, error))
    return 1


def _start(keeper: Keeper, number: int, path: str) -> int:
    """Start a copy; its pid, 0 where no process can be started."""
    program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
    argv = program + ["spare", keeper.root.path, str(number), path]
    try:
        pid = os.posix_spawn(sys.executable, argv, os.environ)
    except OSError as error:
        complain("no spare of %s: %s" % (path, error))
        return 0
    keeper.expected.add(pid)
    return pid
