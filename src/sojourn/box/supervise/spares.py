"""Spare copies of checkpoints that a script overwrites in place: killed while doing so, it has none left.

While an attempt runs, a child of the keeper (one per copy) keeps the last complete version of each such file. After a
bad end, `mend` restores it if the original is torn. A script that names each checkpoint differently needs no spares:
the previous one still exists. Nor does one whose saves `protect: saves` makes whole, as far as it does.

A file has one spare at most, which goes when the script removes the file: so there are never more than the script
keeps. And they yield to it: no spare takes what the job's `disk_size` asked for, or the last free room of the disk.
"""

from __future__ import annotations

import os
import re
import signal
import time

from sojourn.box.run import copying, saved_files
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root
from sojourn.box.supervise import prepare
from sojourn.box.supervise.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Sequence, Set

    from sojourn.box.run.saved_files import Saved
    from sojourn.wire.documents import Spec

_SHARE = 100  # looking takes at most this part of the time
_SETTLED_NS = 500_000_000  # a file not written to for this long is at rest
_QUIET_NS = 50_000_000  # the same for a format that states its end: longer than a tick of the file system's clock
_ROOM_BYTES, _ROOM_SHARE = 1 << 30, 20  # stays free beside two copies: 1 GiB, on a small disk a twentieth
_MOST_KNOWN = 10_000
_SOON_S = 0.5  # how often files that may need a spare are checked, once there are some
_LATEST_S = 60.0  # the longest that a file written to during every copy is left alone
_MOST_WATCHED = 20
_REMOVED_S = 5.0  # a file that is gone so long, with none beside it, is not just being saved again
_ANY_BYTES = 1 << 62
_COPIED, _NOT, _MOVING = 0, 1, 2  # a child's exit status; _MOVING: written to meanwhile, or not at rest


class Spares:
    """For one running attempt; makes at most one copy at a time."""

    def __init__(self, keeper: Keeper, number: int) -> None:
        self._keeper = keeper
        self._folder = keeper.root.attempt(number)
        self._number = number
        self._is_protected = keeper.spec.get("protect") == "saves"
        self._next_s = 0.0  # when to search the whole working copy again
        self._known: List[Saved] = []  # its content at the last search, with the newest first
        self._pid = 0
        self._copied = ""  # the path being copied, since _began_s
        self._began_s = 0.0
        self._seen: Dict[str, Saved] = {}  # each path as last seen
        self._over: Set[str] = set()  # overwritten paths
        self._spared: Dict[str, int] = {}  # for each path, the mtime of the version last copied
        self._vain: Dict[str, int] = {}  # for each path, consecutive copies abandoned because it changed
        self._not_before_s: Dict[str, float] = {}
        self._pushed: Dict[str, int] = {}  # the sizes of pushed files that look like checkpoints
        self._gone_s: Dict[str, float] = {}  # when the original of a spare was first seen to be gone
        self._most_bytes = _most_bytes(keeper.root, number, keeper.spec)

    def tick(self, now_s: float) -> None:
        """Start a copy if due. `now_s`: monotonic."""
        if self._pid in self._keeper.reaped:
            self._take(self._keeper.reaped.pop(self._pid), time.monotonic())
        if self._pid:
            return
        if now_s >= self._next_s:
            if not self._next_s:
                rows = prepare.pushed(self._keeper.root, self._keeper.spec).items()
                self._pushed = {path: row.get("bytes", -1) for path, row in rows if saved_files.is_named(path)}
            self._known = saved_files.find(self._folder)
            self._next_s = now_s + max(self._keeper.beat_s, _SHARE * (time.monotonic() - now_s))
        else:
            self._known = [*map(self._again, self._known[:_MOST_WATCHED]), *self._known[_MOST_WATCHED:]]
        try:
            self._yield(now_s)
        except OSError:
            pass  # spares stay where nothing can be seen
        due = self._due(self._known, now_s)
        if due is not None:
            self._spared[due.path] = due.mtime_ns
            self._copied, self._began_s = due.path, now_s
            self._pid = _start(self._keeper, self._number, due.path, self._most_bytes)

    def next_s(self, now_s: float) -> float:
        """When to call `tick` again, by the same clock."""
        return now_s + _SOON_S if any(not one.is_folder for one in self._known) else self._next_s

    def drop(self) -> None:
        """End the copy in progress: its payload has ended."""
        if self._pid and self._pid not in self._keeper.reaped:
            try:
                os.kill(self._pid, 9)
            except ProcessLookupError:
                pass
            while self._pid not in self._keeper.reaped:
                self._keeper.listen(0.1)
        self._keeper.reaped.pop(self._pid, None)
        self._pid = 0

    def _take(self, status: int, now_s: float) -> None:
        """A copy has ended. The next one of this file waits as long as this one took, so that copying takes half of the
        time at most; after an abandoned one longer each time.
        """
        path, self._pid = self._copied, 0
        is_in_vain = os.WIFEXITED(status) and os.WEXITSTATUS(status) == _MOVING
        self._vain[path] = self._vain.get(path, 0) + 1 if is_in_vain else 0
        if is_in_vain:
            self._spared.pop(path, None)
        pause_s = max(_SOON_S, (now_s - self._began_s) * 2 ** min(self._vain[path], 10))
        self._not_before_s[path] = now_s + min(pause_s, max(_LATEST_S, now_s - self._began_s))

    def _yield(self, now_s: float) -> None:
        """Remove the spares of files that the script removed; of every whole file, where the disk is getting full.
        Raises: OSError.
        """
        top = self._keeper.root.spares(self._number)
        kept = saved_files.find(top)
        is_short = bool(kept) and _free_bytes(self._keeper.root) < 0
        for one in kept:
            full = os.path.join(self._folder, one.path)
            if os.path.lexists(full):
                self._gone_s.pop(one.path, None)
                is_over = is_short and saved_files.is_whole(full)
            else:
                beside = _named_in(os.path.dirname(full))
                gone_s = now_s - self._gone_s.setdefault(one.path, now_s)
                is_over = any(map(saved_files.is_whole, beside)) or (not beside and gone_s >= _REMOVED_S)
            if is_over:
                os.unlink(os.path.join(top, one.path))

    def _again(self, one: Saved) -> Saved:
        try:
            found = os.stat(os.path.join(self._folder, one.path))
        except OSError:
            return one
        if one.is_folder:
            return one
        return one._replace(mtime_ns=found.st_mtime_ns, bytes=found.st_size, inode=found.st_ino)

    def _due(self, found: Sequence[Saved], now_s: float) -> Saved | None:
        """The newest file that needs a spare and has none."""
        for one in found:
            before = self._seen.get(one.path)
            if before is not None and before.mtime_ns != one.mtime_ns and self._is_torn_by_a_kill(before, one):
                self._over.add(one.path)
            if before is not None or len(self._seen) < _MOST_KNOWN:
                self._seen[one.path] = one
        for one in found:
            is_new = one.mtime_ns != self._spared.get(one.path) and now_s >= self._not_before_s.get(one.path, 0.0)
            if is_new and not one.is_folder and self._is_needed(one, found):
                return one
        return None

    def _is_torn_by_a_kill(self, before: Saved, now: Saved) -> bool:
        """Whether a file saved again may have been overwritten in place: a protected save puts a new file there."""
        return not self._is_protected or before.inode == now.inode

    def _is_needed(self, one: Saved, found: Sequence[Saved]) -> bool:
        """It was overwritten, or will be: its name has no number, or nothing beside it could replace it."""
        if one.path in self._over:
            return True
        if self._is_protected or self._pushed.get(one.path) == one.bytes:
            return False
        if not re.search(r"[0-9]", os.path.basename(one.path).partition(".")[0]):
            return True
        return sum(os.path.dirname(other.path) == os.path.dirname(one.path) for other in found) == 1


def mend(root: Root, number: int, spares_of: int) -> List[str]:
    """In the working copy of attempt `number`, replace torn or missing files by the spares from attempt `spares_of`;
    their paths. A torn file is kept as .torn-NAME. Raises: OSError.
    """
    folder, spares = root.attempt(number), root.spares(spares_of)
    mended = []
    for one in saved_files.find(spares):
        full, spare = os.path.join(folder, one.path), os.path.join(spares, one.path)
        if saved_files.is_whole(full) or not saved_files.is_whole(spare):
            continue
        beside = saved_files.find(folder, [os.path.dirname(one.path)])
        if not os.path.lexists(full) and any(saved_files.is_whole(os.path.join(folder, two.path)) for two in beside):
            continue  # the script removed it, and has others
        set_aside(full)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        coming = os.path.join(os.path.dirname(spare), ".back-" + os.path.basename(spare))  # half a copy is no output
        if os.path.lexists(coming):
            os.unlink(coming)
        copying.copy(spare, coming)
        os.rename(coming, full)
        mended.append(one.path)
    return mended


def set_aside(path: str) -> None:
    """Rename a torn checkpoint so that no script takes it for one; does nothing if there is none. Raises: OSError."""
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


def take_over(root: Root, number: int) -> None:
    """Keep the previous attempt's spares for this one, which has its files now, until it has its own."""
    before, now = root.spares(number - 1), root.spares(number)
    if os.path.isdir(before) and not os.path.lexists(now):
        os.rename(before, now)


def make(root: Root, number: int, path: str, most_bytes: int = _ANY_BYTES) -> int:
    """Copy one file of attempt `number` to its spares, if it is complete, at rest, and stays unchanged meanwhile, and
    all spares together then have at most `most_bytes`: _COPIED, _MOVING or _NOT. Raises: nothing.
    """
    source, goal = os.path.join(root.attempt(number), path), os.path.join(root.spares(number), path)
    coming = os.path.join(os.path.dirname(goal), ".new-" + os.path.basename(goal))
    try:
        before = os.stat(source)
        quiet_ns = _QUIET_NS if saved_files.states_its_end(source) else _SETTLED_NS
        if time.time_ns() - before.st_mtime_ns < quiet_ns:
            return _MOVING
        others = sum(one.bytes for one in saved_files.find(root.spares(number)) if one.path != path)
        if _free_bytes(root) < 2 * before.st_size or others + before.st_size > most_bytes:
            return _NOT
        os.makedirs(os.path.dirname(goal), mode=0o700, exist_ok=True)
        if os.path.lexists(coming):
            os.unlink(coming)
        copying.copy(source, coming)
        is_same = _version(before) == _version(os.stat(source))
        if is_same and saved_files.is_whole(coming):
            os.rename(coming, goal)
            return _COPIED
        os.unlink(coming)
        return _NOT if is_same else _MOVING
    except OSError as error:
        complain("no spare copy of %s: %s" % (path, error))
    return _NOT


def _free_bytes(root: Root) -> int:
    """What is free beyond the room that spares leave alone. Raises: OSError."""
    disk = os.statvfs(root.path)
    return disk.f_bavail * disk.f_frsize - min(_ROOM_BYTES, disk.f_blocks * disk.f_frsize // _ROOM_SHARE)


def _most_bytes(root: Root, number: int, spec: Spec) -> int:
    """How much all spares may have: what is free at the start of the attempt beyond the `disk_size` of the job."""
    try:
        asked_bytes = float((spec.get("resources") or {}).get("disk_size") or 0) * (1 << 30)
        disk = os.statvfs(root.path)
    except (TypeError, ValueError, OSError):
        return _ANY_BYTES
    here = sum(one.bytes for one in saved_files.find(root.spares(number)))
    return int(max(0, disk.f_bavail * disk.f_frsize + here - asked_bytes)) if asked_bytes else _ANY_BYTES


def _named_in(folder: str) -> List[str]:
    """The files directly in a folder that have a checkpoint's name."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if not name.startswith(".") and saved_files.is_named(name)]


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _start(keeper: Keeper, number: int, path: str, most_bytes: int) -> int:
    """Start a copy; its pid, 0 if no process can be started. A fork without a new program: a script that saves every
    second leaves no time for Python to start on a busy machine.
    """
    try:
        pid = os.fork()
    except OSError as error:
        complain("no spare copy of %s: %s" % (path, error))
        return 0
    if not pid:
        ended = _NOT
        try:
            _leave_alone()
            ended = make(keeper.root, number, path, most_bytes)
        finally:
            os._exit(ended)
    keeper.expected.add(pid)
    return pid


def _leave_alone() -> None:
    """In the child: release the keeper's locks, and handle no signal in its place."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed them
    os.nice(10)
