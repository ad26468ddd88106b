"""A folder of checkpoints: whole, durable, and named so that the newest of the latest attempt wins.

A checkpoint `ckpt-t000003-s00000120.pt` was written by the attempt with fencing token 3 at step 120. It gets this name
once all its bytes are on disk (`Shelf.commit`). The highest valid (token, step) wins; the pointer `latest.json` is for
others to read and never trusted here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Any, Callable, Iterator, TypeVar

from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import Damaged
from sojourn.formats.torch.write import Plan
from sojourn.train.saving import distributed_shards
from sojourn.train.saving.commit import BEST, Shelf, highest_token, make_folder
from sojourn.wire import units
from sojourn.wire.errors import Misuse, WorldError

LOCK_WAIT_S = 10.0
T = TypeVar("T")
_here: dict[str, Folder] = {}  # this process's folders by real path


class FolderBusy(Misuse):
    """Another training is writing checkpoints to {folder}. Give this one its own folder:
    Checkpointer(folder=...).
    """

    code = "folder-busy"


class NoPlace(WorldError):
    """Checkpoints cannot be written to {folder}: {detail}."""

    code = "no-place"


class Folder:
    """The checkpoints below `path`, as seen by the attempt with fencing token `token`. Creates the folder.

    With `token` None (without sojourn) the folder is locked for this process and the token is the next free one. `say`
    gets one line for everything worth reporting. `shelf` makes commits.   Raises: NoPlace, FolderBusy.
    """

    def __init__(self, path: str, token: int | None, keep: int, say: Callable[[str], None]) -> None:
        self.path, self.say = os.path.abspath(path), say
        self._lock = -1
        try:
            make_folder(self.path)
        except OSError as e:
            raise NoPlace(folder=self.path, detail=e.strerror) from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise NoPlace(folder=self.path, detail="it cannot be written to")
        self._is_open = True
        before = _here.get(os.path.realpath(self.path))
        if before is not None:
            before.close()  # a notebook cell run again; users of the old one get an error
        is_locked = token is None and self._take_lock()
        _here[os.path.realpath(self.path)] = self
        self.token = token if token is not None else highest_token(self.path) + 1
        self.shelf = Shelf(self.path, self.token, keep, say)
        if not is_locked and highest_token(self.path) < self.token:
            self.shelf.fence()
        self.shelf.sweep()

    def close(self) -> None:
        """Release the folder: nothing more is written through it. Idempotent."""
        self._is_open = False
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def check_open(self) -> None:
        """Raises: FolderBusy if it was closed, or taken over by a later Folder of this process."""
        if not self._is_open:
            raise FolderBusy(folder=self.path)

    def latest_valid(self) -> torch_zip.Opened | None:
        """The newest checkpoint whose every byte is unchanged; reports those that are not.

        best.pt is the last resort. None if there is nothing.   Raises: Damaged if nothing is valid; Superseded.
        """
        return self.newest(distributed_shards.open_shards)

    def newest(self, read: Callable[[str], T]) -> T | None:
        """`read(path)` of the newest checkpoint for which it does not raise Damaged; as `latest_valid`."""
        self.shelf.check_token()
        names = [name for _, _, name in self.shelf.listed()]
        names += [BEST] if names and os.path.exists(os.path.join(self.path, BEST)) else []
        last: Exception | None = None
        for name in names:
            try:
                return read(os.path.join(self.path, name))
            except Damaged as e:
                self.shelf.damaged.add(name)
                self.say(f"{name} is damaged and skipped: {e.fields['detail']}")
                last = e
            except OSError as e:
                self.say(f"{name} cannot be read and is skipped: {e.strerror}")
                last = e
        if last is not None:
            # Starting from nothing would discard work without asking.
            detail = f"none of its {len(names)} checkpoints can be read; move them away to start from the beginning"
            raise Damaged(self.path, "corrupt", detail) from last
        return None

    def commit(self, plan: Plan, step: int, at_s: float) -> str:
        """Write a checkpoint right here, straight from the state, so that it survives a power cut; returns its name.

        On any error nothing half-written stays and nothing is pruned.   Raises: OSError, Superseded, FolderBusy.
        """
        self.check_open()

        def write(aside: str) -> str:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                plan.write_to(fd)
                os.fsync(fd)
            finally:
                os.close(fd)
            return plan.sums_sha256

        return self.shelf.commit(write, plan.bytes, step, at_s)

    def budget(self, size_bytes: int, with_best: bool) -> str:
        """The most that checkpoints of this size will take, and the free space: one line, loud if it does not fit.

        One more than kept, since the new one is whole before an old one goes.
        """
        keep = self.shelf.keep
        kinds = f"the newest {keep}" + (" and best.pt" if with_best else "")
        need, disk = size_bytes * (keep + 1 + with_best), os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        line = f"{kinds} stay in {self.path}: up to {units.say_bytes(need)}, free {units.say_bytes(free)}"
        return line if free >= need or not disk.f_blocks else f"{line}: TOO LITTLE ROOM, saves will fail"

    def best(self) -> torch_zip.Opened | None:
        """best.pt, every byte checked; None if there is none.   Raises: Damaged, OSError."""
        try:
            return torch_zip.read_zip(os.path.join(self.path, BEST))
        except FileNotFoundError:
            return None

    def best_facts(self) -> Any:
        """The facts stored in best.pt; {} if it is missing or unreadable."""
        try:
            return torch_zip.facts(os.path.join(self.path, BEST))
        except (OSError, Damaged):
            return {}

    def _take_lock(self) -> bool:
        """A lock for as long as this process lives, whatever it forks.

        False if the file system has no locks: then the fence of the later of two trainings ends the earlier one.
        Raises: FolderBusy.
        """
        fd = os.open(os.path.join(self.path, ".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for wait_s in _waits(LOCK_WAIT_S):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = fd
                return True
            except OSError as e:
                if e.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                    os.close(fd)
                    return False
            time.sleep(wait_s)
        os.close(fd)
        raise FolderBusy(folder=self.path)


def _in_child() -> None:
    """A forked child (a worker of a loader) must not hold the lock after the training was killed."""
    for folder in _here.values():
        if folder._lock >= 0:
            os.close(folder._lock)  # the lock itself belongs to its parent
            folder._lock = -1


os.register_at_fork(after_in_child=_in_child)


def _waits(total_s: float) -> Iterator[float]:
    """Growing pauses that add up to about `total_s`."""
    pause_s, spent_s = 0.05, 0.0
    while spent_s < total_s:
        yield pause_s
        spent_s += pause_s
        pause_s = min(1.0, pause_s * 2)
