"""A folder of checkpoints: what is in it is whole, durable, and named so that the newest of the latest attempt wins.

A checkpoint `ckpt-t000003-s00000120.pt` was written by the attempt with fencing token 3 at step 120. It appears under
that name when all its bytes are on the disk: written aside, fsynced, renamed, the folder fsynced, the pointer
`latest.json` last. The highest (token, step) that is valid wins; the pointer is for others to look at and never
believed here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from typing import Any, Callable, Iterator

from sojourn.wire import atomic, torch_zip, units
from sojourn.wire.errors import Misuse, Refusal, WorldError
from sojourn.wire.torch_values import Damaged
from sojourn.wire.torch_write import Plan

_NAME = re.compile(r"ckpt-t(\d{6,})-s(\d{8,})\.pt")
_ASIDE = re.compile(r"(?:\.ckpt-t(\d{6,})-s\d{8,}\.pt|latest\.json)\.\d+\.tmp")
LATEST = "latest.json"
BEST = "best.pt"
LATEST_SCHEMA = "sojourn/latest/v1"
LOCK_WAIT_S = 10.0
_here: dict[str, Folder] = {}  # this process's folders by their real path


class Superseded(Refusal):
    """A later attempt (fencing token {theirs}) writes into {folder}; this one ({ours}) stops, so that no work is done
    twice.
    """

    code = "superseded"


class FolderBusy(Misuse):
    """Another training writes its checkpoints into {folder}. Give this one a folder of its own:
    Checkpointer(folder=...).
    """

    code = "folder-busy"


class NoPlace(WorldError):
    """Checkpoints cannot be written into {folder}: {detail}."""

    code = "no-place"


class Folder:
    """The checkpoints below `path`, as the attempt with fencing token `token` sees them. Creates the folder.

    With `token` None (no sojourn around) the folder is locked for this process and the token is the next free one.
    `say` gets one line for everything worth telling.   Raises: NoPlace, FolderBusy.
    """

    def __init__(self, path: str, token: int | None, keep: int, say: Callable[[str], None]) -> None:
        self.path, self.keep, self.say = os.path.abspath(path), keep, say
        self._lock = -1
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as e:
            raise NoPlace(folder=self.path, detail=e.strerror) from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise NoPlace(folder=self.path, detail="it cannot be written to")
        self._damaged: set[str] = set()
        self._is_open = True
        before = _here.get(os.path.realpath(self.path))
        if before is not None:
            before.close()  # a cell of a notebook that is run again; whoever still uses the old one is told
        if token is None:
            self._take_lock()
        _here[os.path.realpath(self.path)] = self
        tokens = [found[0] for found in self._listed()]
        self.token = token if token is not None else max(tokens, default=0) + 1
        self._sweep()

    def close(self) -> None:
        """Release the folder: nothing more is written here. Idempotent."""
        self._is_open = False
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def latest_valid(self) -> torch_zip.Opened | None:
        """The newest checkpoint every byte of which is as it was written; says which are not.

        best.pt is the last resort. None where there is nothing.   Raises: Damaged where nothing of what is there is
        valid; Superseded.
        """
        self._check_token()
        names = [name for _, _, name in self._listed()]
        names += [BEST] if names and os.path.exists(os.path.join(self.path, BEST)) else []
        last: Exception | None = None
        for name in names:
            try:
                return torch_zip.read(os.path.join(self.path, name))
            except Damaged as e:
                self._damaged.add(name)
                self.say(f"{name} is damaged and passed over: {e.fields['detail']}")
                last = e
            except OSError as e:
                self.say(f"{name} cannot be read and is passed over: {e.strerror}")
                last = e
        if last is not None:
            # Starting from nothing would throw away work without asking.
            detail = f"none of its {len(names)} checkpoints can be read; move them away to start from the beginning"
            raise Damaged(self.path, "corrupt", detail) from last
        return None

    def commit(self, plan: Plan, step: int, at_s: float) -> str:
        """Write a checkpoint so that it survives a power cut; its name. Older ones are pruned when it is there.

        On any error nothing half-written stays and nothing is pruned.   Raises: OSError, Superseded, FolderBusy
        (closed, or taken over by a later Folder of this process).
        """
        if not self._is_open:
            raise FolderBusy(folder=self.path)
        self._check_token()
        name = f"ckpt-t{self.token:06d}-s{step:08d}.pt"
        target = os.path.join(self.path, name)
        aside = os.path.join(self.path, f".{name}.{os.getpid()}.tmp")
        disk = os.statvfs(self.path)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < plan.bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            try:
                plan.write_to(fd)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(aside, target)
        except BaseException:
            _forget(aside)
            raise
        atomic.sync_folder(self.path)
        pointer = {"schema": LATEST_SCHEMA, "path": name, "token": self.token, "step": step, "bytes": plan.bytes}
        pointer.update(sums_sha256=plan.sums_sha256, at=units.stamp(at_s))
        try:
            atomic.write_json(os.path.join(self.path, LATEST), pointer)
        except OSError as e:
            self.say(f"{name} is saved; {LATEST} could not be brought up to date: {e.strerror}")
            return name  # what the old pointer names is not pruned
        self._prune()
        return name

    def make_best(self, name: str) -> None:
        """Let `best.pt` be the checkpoint `name`, durably: a second link to it, a copy where links are not to be had.

        Idempotent.   Raises: OSError, and then the old best.pt stands.
        """
        source, target = os.path.join(self.path, name), os.path.join(self.path, BEST)
        aside = os.path.join(self.path, f".{name}.{os.getpid()}.tmp")
        try:
            try:
                os.link(source, aside)
            except OSError as e:
                if e.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                    raise
                shutil.copyfile(source, aside)
                with open(aside, "rb") as f:
                    os.fsync(f.fileno())
            if os.path.exists(target) and os.path.samefile(aside, target):
                _forget(aside)  # rename(2) of two links to one file leaves both
                return
            os.rename(aside, target)
        except BaseException:
            _forget(aside)
            raise
        atomic.sync_folder(self.path)

    def budget(self, size_bytes: int, with_best: bool) -> str:
        """What checkpoints of this size will take at most, beside what is free: one line, loud where it does not fit.

        One more than is kept, since the new one is whole before an old one goes.
        """
        kinds = f"the newest {self.keep}" + (" and best.pt" if with_best else "")
        need, disk = size_bytes * (self.keep + 1 + with_best), os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        line = f"{kinds} stay in {self.path}: up to {units.say_bytes(need)}, free {units.say_bytes(free)}"
        return line if free >= need or not disk.f_blocks else f"{line}: TOO LITTLE ROOM, saves will fail"

    def best(self) -> torch_zip.Opened | None:
        """best.pt, every byte checked; None where there is none.   Raises: Damaged, OSError."""
        try:
            return torch_zip.read(os.path.join(self.path, BEST))
        except FileNotFoundError:
            return None

    def best_facts(self) -> Any:
        """What best.pt says of itself; {} where there is none or it cannot be read."""
        try:
            return torch_zip.facts(os.path.join(self.path, BEST))
        except (OSError, Damaged):
            return {}

    def _listed(self) -> list[tuple[int, int, str]]:
        """(token, step, name) of every checkpoint by name, newest first."""
        found = [(hit, name) for hit, name in ((_NAME.fullmatch(name), name) for name in os.listdir(self.path)) if hit]
        return sorted(((int(hit.group(1)), int(hit.group(2)), name) for hit, name in found), reverse=True)

    def _check_token(self) -> None:
        highest = max((token for token, _, _ in self._listed()), default=0)
        if highest > self.token:
            raise Superseded(theirs=highest, ours=self.token, folder=self.path)

    def _prune(self) -> None:
        """Remove what is older than the newest `keep`, and what was found damaged, now that a new one is durable."""
        mine = [name for token, _, name in self._listed() if token <= self.token]
        good = [name for name in mine if name not in self._damaged]
        for name in good[self.keep :] + [name for name in mine if name in self._damaged]:
            _forget(os.path.join(self.path, name))
            self._damaged.discard(name)

    def _sweep(self) -> None:
        """Remove what attempts up to this one left half-written when they were killed."""
        for name in os.listdir(self.path):
            hit = _ASIDE.fullmatch(name)
            if hit and int(hit.group(1) or 0) <= self.token:
                _forget(os.path.join(self.path, name))

    def _take_lock(self) -> None:
        """A lock that lasts as long as this process; a forked data worker of a killed one may hold it for some seconds.

        Where the file system has no locks there is none: then two trainings in one folder are the user's to avoid.
        """
        fd = os.open(os.path.join(self.path, ".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for wait_s in _waits(LOCK_WAIT_S):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as e:
                if e.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                    break
            time.sleep(wait_s)
        else:
            os.close(fd)
            raise FolderBusy(folder=self.path)
        self._lock = fd


def _waits(total_s: float) -> Iterator[float]:
    """Growing pauses that sum up to about `total_s`."""
    pause_s, spent_s = 0.05, 0.0
    while spent_s < total_s:
        yield pause_s
        spent_s += pause_s
        pause_s = min(1.0, pause_s * 2)


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already, or the disk is read-only: the next start sweeps it
