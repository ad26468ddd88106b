"""How a checkpoint gets into its folder: aside, fsync, rename, fsync of the folder, pointer; then older ones go.

One `Shelf` does it inside the training process, another in the writer process; both from the same plain values.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from sojourn.train.saving import sealed
from sojourn.wire import atomic, saved, units
from sojourn.wire.errors import Refusal

_ASIDE = re.compile(r"(?:\.ckpt-t(\d{6,})-s\d{8,}(?:\.pt|-\d+)?|latest\.json)\.\d+\.tmp")
_FENCE = re.compile(r"\.t(\d{6,})\.fence")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LATEST = "latest.json"
BEST = "best.pt"
LATEST_SCHEMA = "sojourn/latest/v1"


class Superseded(Refusal):
    """A later attempt (fencing token {theirs}) has {folder}; this one ({ours}) stops, so that no work is done twice."""

    code = "superseded"


class Orphaned(Exception):
    """The training behind this writer is gone, so it publishes nothing more."""


@dataclass
class Shelf:
    """The checkpoints in the folder `path`, for the attempt with fencing token `token`, which keeps the newest `keep`.

    `damaged`: names found invalid; they do not count as kept and are removed by the next commit. `say` gets one line
    for each harmless problem. `check` is called before anything becomes visible; it may raise. With `prunes_later` a
    commit leaves removal to a call of `prune`: it takes seconds for large checkpoints.
    """

    path: str
    token: int
    keep: int
    say: Callable[[str], None]
    damaged: set[str] = field(default_factory=set)
    check: Callable[[], None] = lambda: None
    prunes_later: bool = False
    outdated: list[str] = field(default_factory=list)

    def commit(self, write: Callable[[str], str], size_bytes: int, step: int, at_s: float) -> str:
        """Let `write(aside)` write and fsync a whole file, publish it durably, prune older ones; returns the new name.

        `write` returns the sums_sha256 of its file. On any error nothing half-written stays and nothing is pruned.
        Raises: OSError, Superseded, and what `check` raises.
        """
        return self._publish(
            f"{self._stem(step)}.pt", lambda aside: (write(aside), size_bytes), size_bytes, step, at_s, True
        )[0]

    def commit_folder(
        self, fill: Callable[[str], None], size_bytes: int, step: int, at_s: float, facts: Mapping[str, Any]
    ) -> tuple[str, int]:
        """Let `fill(aside)` put files into an empty folder, then seal and publish it likewise; (name, total bytes).

        `size_bytes`: the least it will take, if known. `facts`: see `sealed.seal`.
        Raises: as `commit`, and what `fill` raises.
        """

        def write(aside: str) -> tuple[str, int]:
            os.mkdir(aside)
            fill(aside)
            return sealed.seal(aside, facts)

        name, count = self._stem(step), 1
        while os.path.exists(os.path.join(self.path, name)):
            name, count = f"{self._stem(step)}-{count}", count + 1
        return self._publish(name, write, size_bytes, step, at_s)

    def _stem(self, step: int) -> str:
        return f"ckpt-t{self.token:06d}-s{step:08d}"

    def _publish(
        self,
        name: str,
        write: Callable[[str], tuple[str, int]],
        least_bytes: int,
        step: int,
        at_s: float,
        is_repeatable: bool = False,
    ) -> tuple[str, int]:
        """`write`: returns (a sha256 that identifies the content, bytes); `is_repeatable`: it can be called again."""
        self._be_there()
        self.check_token()
        target, aside = os.path.join(self.path, name), self._aside(name)
        if not self._has_room(least_bytes) and not self._make_room(name, least_bytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        try:
            try:
                sums_sha256, size_bytes = write(aside)
            except OSError as e:
                if e.errno not in _NO_ROOM or not is_repeatable:
                    raise
                forget(aside)
                if not self._make_room(name, None):
                    raise
                sums_sha256, size_bytes = write(aside)
            self.check()
            self.check_token()
            os.rename(aside, target)
        except BaseException:
            forget(aside)
            raise
        atomic.sync_folder(self.path)
        self.damaged.discard(name)
        pointer = {"schema": LATEST_SCHEMA, "path": name, "token": self.token, "step": step, "bytes": size_bytes}
        pointer.update(sums_sha256=sums_sha256, at=units.stamp(at_s))
        try:
            atomic.write_json(os.path.join(self.path, LATEST), pointer)
        except OSError as e:
            self.say(f"{name} is saved; {LATEST} could not be brought up to date: {e.strerror}")
            return name, size_bytes  # the old pointer's checkpoint is not pruned
        mine = [other for token, _, other in self.listed() if token <= self.token]
        good = [other for other in mine if other not in self.damaged]
        self.outdated = good[self.keep :] + [other for other in mine if other in self.damaged]
        if not self.prunes_later:
            self.prune()
        return name, size_bytes

    def _be_there(self) -> None:
        """Recreate the folder if it was removed."""
        if not os.path.isdir(self.path):
            make_folder(self.path)
            self.fence()  # a lock on the old one does not keep others out of this one
            self.say(f"{self.path} was removed with all that was in it, and is made again")

    def _has_room(self, size_bytes: int) -> bool:
        disk = os.statvfs(self.path)
        return not disk.f_blocks or disk.f_bavail * disk.f_frsize >= size_bytes

    def _make_room(self, name: str, size_bytes: int | None) -> bool:
        """Remove older checkpoints, damaged ones first, until there is room; the newest good one stays.

        `size_bytes` None: how much is missing is unknown (a quota), so one is removed. Returns whether that may
        suffice.
        """
        mine = [other for token, _, other in self.listed() if token <= self.token and other != name]
        good = [other for other in mine if other not in self.damaged]
        for other in [other for other in mine if other in self.damaged] + good[:0:-1]:
            self._retire(other)
            self.damaged.discard(other)
            self.say(f"no room for {name}: {other}, an older one, was removed to make some")
            if size_bytes is None or self._has_room(size_bytes):
                return True
        return False

    def prune(self) -> None:
        """Remove what is older than the newest `keep` or damaged, once a new one is durable."""
        for name in self.outdated:
            self._retire(name)
            self.damaged.discard(name)
        self.outdated = []

    def make_best(self, name: str) -> None:
        """Make `best.pt` the checkpoint `name`, durably: a second link to it, or a copy where links are unsupported.

        Idempotent.   Raises: OSError, and then the old best.pt stays.
        """
        source, target, aside = os.path.join(self.path, name), os.path.join(self.path, BEST), self._aside(name)
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
                forget(aside)  # rename(2) of two links to one file leaves both
                return
            os.rename(aside, target)
        except BaseException:
            forget(aside)
            raise
        atomic.sync_folder(self.path)

    def listed(self) -> list[tuple[int, int, str]]:
        """(token, step, name) of every checkpoint by name, newest first."""
        return [(*saved.order(name)[:2], name) for name in saved.newest_first(os.listdir(self.path))]

    def check_token(self) -> None:
        """Raises: Superseded if an attempt with a higher token has started or saved here."""
        highest = highest_token(self.path)
        if highest > self.token:
            raise Superseded(theirs=highest, ours=self.token, folder=self.path)

    def fence(self) -> None:
        """Every attempt with a lower token finds out, at its next save, that this one has started.

        An empty folder, so that nobody takes it for an output. If it cannot be created (a full disk), the others learn
        from this one's first checkpoint.
        """
        try:
            os.mkdir(os.path.join(self.path, f".t{self.token:06d}.fence"))
        except FileExistsError:
            pass
        except OSError:
            return
        for name in os.listdir(self.path):
            hit = _FENCE.fullmatch(name)
            if hit and int(hit.group(1)) < self.token:
                try:
                    os.rmdir(os.path.join(self.path, name))
                except OSError:
                    pass  # somebody else did, or it is not ours

    def sweep(self) -> None:
        """Remove what attempts up to this one left half-written when killed."""
        for name in os.listdir(self.path):
            hit = _ASIDE.fullmatch(name)
            if hit and int(hit.group(1) or 0) <= self.token:
                forget(os.path.join(self.path, name))

    def _retire(self, name: str) -> None:
        """Remove a checkpoint; a folder loses its name first, so the next start sweeps what a kill leaves."""
        path, aside = os.path.join(self.path, name), self._aside(name)
        if os.path.isdir(path):
            try:
                os.rename(path, aside)
                atomic.sync_folder(self.path)
            except OSError:
                return  # it stays whole, under its name, or is swept by the next start
            path = aside
        forget(path)

    def _aside(self, name: str) -> str:
        return os.path.join(self.path, f".{name}.{os.getpid()}.tmp")


def make_folder(path: str) -> None:
    """The folder and its missing parents, so that after a power cut it is still where its checkpoints are.

    Raises: OSError.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    try:
        atomic.sync_folder(above)
    except OSError:
        pass  # unreadable, or a file system without fsync: as durable as it gets


def stands(latest: Mapping[str, Any] | None, folder: str) -> str:
    """The checkpoint in the folder: `latest` (see `Saver`) if it still is; in words."""
    if latest is not None and os.path.exists(latest["path"]):
        return f"{os.path.basename(latest['path'])} stands"
    try:
        there = saved.newest_first(os.listdir(folder))
    except OSError:
        there = []
    return f"{there[0]} stands" if there else "nothing is saved" + ("" if latest else " yet")


def highest_token(path: str) -> int:
    """The highest fencing token that left a checkpoint or a fence in the folder; 0 if there is none."""
    hits = (saved.NAME.fullmatch(name) or _FENCE.fullmatch(name) for name in os.listdir(path))
    return max((int(hit.group(1)) for hit in hits if hit), default=0)


def forget(path: str) -> None:
    """Remove a file, or a folder with its content, if possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        os.unlink(path)
    except OSError:
        pass  # already gone, or the disk is read-only: the next start sweeps it
