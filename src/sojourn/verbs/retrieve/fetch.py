"""Bringing files home: into a staging folder beside the target, resumed where they were cut, hashed, renamed in."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sojourn.core.values import NoAnswer
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.moving import Patience, Progress
from sojourn.verbs.retrieve.homes import OLD_NAME as ROSTER
from sojourn.verbs.retrieve.homes import UNPROVEN, Roster, hash_regular
from sojourn.wire import syncing, units
from sojourn.wire.errors import BadResult, Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow

CALL_S = 600.0  # for one stretch of a transfer; the next one goes on where it ended
_LOOK_S = 0.5
SPARE_BYTES = 16 << 20

__all__ = ["ROSTER", "UNPROVEN", "Home", "HomeFull", "HomeUnwritable", "NotOurs", "fetch"]


class HomeUnwritable(Misuse):
    """{path} cannot be written: {detail}."""

    code = "home-unwritable"
    next_step = "sojourn pull {run} --to A-FOLDER"


class HomeFull(BadResult):
    """{path} does not have enough space for the files to be fetched: {detail}."""

    code = "home-full"
    retry = True
    next_step = "free some space, then sojourn pull {run} (it resumes)"


class NotOurs(Misuse):
    """{home} already holds {count} files that are not from {run}: {some}. Nothing was written."""

    code = "home-taken"
    next_step = "sojourn pull {run} --to ANOTHER-FOLDER"


@dataclass(frozen=True)
class Home:
    """Where a run's files come home. `staging` is in the same file system, so that a rename brings a file in whole."""

    run: str
    folder: str  # absolute
    roster: Roster

    @functools.cached_property
    def staging(self) -> str:
        """The folder of partly transferred files, kept after an interrupted pull so that the next one resumes."""
        return os.path.join(self.folder, f".sojourn-staging-{self.run}")

    def path(self, name: str) -> str:
        """The final path of the manifest's file `name`."""
        return os.path.join(self.folder, *name.split("/"))

    def unproven(self, name: str) -> str:
        """Where that file lies when it came whole and does not load."""
        return self.path(name) + UNPROVEN

    def lies(self, row: FileRow) -> str:
        """Where a file with exactly the bytes of its row is at home: under its own name, or as unproven; "" where it is
        not. Reads it whole: size and time prove nothing. A link, a pipe or a device there is never read.
        """
        for path in (self.path(row["path"]), self.unproven(row["path"])):
            if hash_regular(path, row["bytes"]) == (row["bytes"], row["sha256"]):
                return path
        return ""

    def staged(self, row: FileRow) -> str:
        """The file's place in the staging folder: one for each content under each name."""
        return _staged(self.staging, row["path"], row["sha256"])

    def check(self, rows: Sequence[FileRow]) -> None:
        """Before anything is moved: the folder takes files, has room for `rows`, and nothing of others is overwritten.

        Raises: HomeUnwritable, HomeFull, NotOurs.
        """
        is_new = not os.path.lexists(self.folder)
        try:
            if os.path.islink(self.staging):  # nobody's: we make a folder
                os.unlink(self.staging)
            os.makedirs(self.staging, exist_ok=True)
            free = os.statvfs(self.staging)
        except OSError as error:
            raise self.trouble(error) from error
        there = [min(_size_of_regular(self.staged(row)), row["bytes"]) for row in rows]
        lacking = sum(r["bytes"] for r in rows) - sum(there) + SPARE_BYTES - free.f_bavail * free.f_frsize
        if rows and lacking > 0:
            self.tidy()
            if is_new:
                os.rmdir(self.folder)
            raise HomeFull(path=self.folder, detail=f"{units.say_bytes(lacking)} too little", run=self.run)
        names = [name for row in rows for name in (row["path"], row["path"] + UNPROVEN)]
        foreign = self._foreign(names)
        if foreign:
            self.tidy()
            some = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
            raise NotOurs(home=self.folder, count=len(foreign), some=some, run=self.run)

    def settle(self, moves: Mapping[str, tuple[str, str]]) -> None:
        """Rename files to their final places: {name at home: (where it lies now, its sha256)}. Durable.

        That they are this run's is noted before the first is there. Raises: HomeUnwritable, HomeFull, NotOurs.
        """
        try:
            foreign = self._foreign(list(moves))
            if foreign:  # it was put there while files came
                raise NotOurs(home=self.folder, count=len(foreign), some=", ".join(foreign[:3]), run=self.run)
            self.roster.add(self.run, {name: sha256 for name, (_, sha256) in moves.items()})
            syncing.sync([source for source, _ in moves.values()], ())
            folders: dict[str, None] = {}
            for name, (source, _) in moves.items():
                goal = self.path(name)
                folder = os.path.dirname(goal)
                if folder not in folders:
                    os.makedirs(folder, exist_ok=True)
                    folders[folder] = None
                os.replace(source, goal)
            syncing.sync((), list(folders))
        except OSError as error:
            raise self.trouble(error) from error

    def keep(self, name: str, as_name: str, sha256: str) -> str:
        """Give a file at home a second name, before another takes its first; the name it got, which no other file has.

        Durable; repeatable. Raises: HomeUnwritable, HomeFull.
        """
        goal, count = as_name, 1
        while os.path.lexists(self.path(goal)):
            found = hash_regular(self.path(goal))
            if found is not None and found[1] == sha256:
                return goal
            goal, count = f"{as_name}.{count + 1}", count + 1
        try:
            self.roster.add(self.run, {goal: sha256})
            try:
                os.link(self.path(name), self.path(goal))
            except OSError:  # a file system without hard links
                shutil.copy2(self.path(name), self.path(goal), follow_symlinks=False)
            syncing.sync([self.path(goal)], [os.path.dirname(self.path(goal))])
        except OSError as error:
            raise self.trouble(error) from error
        return goal

    def drop_unproven(self, name: str) -> None:
        """The copy of this file that did not load is of no more use. Ours alone. Raises: HomeUnwritable."""
        try:
            if os.path.lexists(self.unproven(name)) and name + UNPROVEN in self.roster.brought(self.run):
                os.unlink(self.unproven(name))
        except OSError as error:
            raise self.trouble(error) from error

    def _foreign(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are there and that no pull of this run brought. Raises: HomeUnwritable where that
        cannot be seen: what cannot be looked into is not empty.
        """
        try:
            ours = self.roster.brought(self.run)
            return [name for name in names if name not in ours and _is_there(self.path(name))]
        except OSError as error:
            self.tidy()
            raise self.trouble(error) from error

    def tidy(self) -> None:
        """Remove the staging folder: everything is home, or nothing may come."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def trouble(self, error: OSError) -> Misuse | BadResult:
        """The error to raise for an error of this machine's disk."""
        detail = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return HomeFull(path=self.folder, detail=detail, run=self.run)
        return HomeUnwritable(path=os.fsdecode(error.filename or self.folder), detail=detail, run=self.run)


def _is_there(path: str) -> bool:
    """Raises: OSError where that cannot be seen."""
    try:
        os.lstat(path)
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False


@functools.lru_cache(1 << 15)  # each row is asked for about ten times
def _staged(staging: str, path: str, sha256: str) -> str:
    name = hashlib.sha256(f"{path}\0{sha256}".encode("utf-8", "surrogateescape")).hexdigest()
    suffix = os.path.splitext(path)[1]
    return os.path.join(staging, name[:32] + (suffix if len(os.fsencode(suffix)) < 100 else ""))


def fetch(ctx: Context, box: Box, root: str, home: Home, row: FileRow, progress: Progress | None = None) -> bool:
    """Bring one file into staging, going on where an earlier try was cut; True where its bytes are those of its row.

    Never more bytes than the row says. False: the file on the box is not the one of the manifest any more (nothing
    stays in staging). Raises: Unreachable (what came is kept), HomeUnwritable, HomeFull.
    """
    staged = home.staged(row)
    for _ in range(2):  # once from where it was cut, and where that gives other bytes once from the start
        try:
            _clear(staged, row["bytes"])
            with _counted(staged, row["path"], progress):
                _stretches(ctx, box, root, home, row, staged)
            if hash_regular(staged, row["bytes"]) == (row["bytes"], row["sha256"]):
                return True
            os.unlink(staged)
        except OSError as error:
            raise home.trouble(error) from error
    return False


def _clear(staged: str, size_bytes: int) -> None:
    """What stands there and cannot be the beginning of the file (a link, a pipe, too long) goes. Raises: OSError."""
    if os.path.lexists(staged) and not 0 <= _size_of_regular(staged, -1) <= size_bytes:
        os.unlink(staged)
    with open(staged, "ab"):
        pass


@contextmanager
def _counted(staged: str, name: str, progress: Progress | None) -> Iterator[None]:
    """Tell `progress` how the file grows, while inside: a transport says nothing until it is done."""
    if progress is None:
        yield
        return
    is_over, known_bytes = threading.Event(), _size_of_regular(staged)

    def look() -> None:
        nonlocal known_bytes
        now_bytes = _size_of_regular(staged)
        progress.add(max(0, now_bytes - known_bytes), name)
        known_bytes = now_bytes

    def watch() -> None:
        while not is_over.wait(_LOOK_S):
            look()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
        look()


def _stretches(ctx: Context, box: Box, root: str, home: Home, row: FileRow, staged: str) -> None:
    """Append to the staged file until it is as long as its row, or the far file brings nothing more."""
    patience = Patience(ctx.now_s, ctx.sleep)
    try:
        while (have := os.path.getsize(staged)) < row["bytes"]:
            far, lacking = f"{root}/{row['from']}", row["bytes"] - have
            answer = box.transport.get(far, staged, offset=have, timeout_s=CALL_S, limit_bytes=lacking)
            brought = os.path.getsize(staged) - have
            if not isinstance(answer, NoAnswer):
                if not brought:
                    return
                patience.moved()
                continue
            if patience.is_over(answer, brought):
                raise unreachable(box.site, answer)
            ctx.say(f"{home.run}: the line was cut ({answer.kind}); going on")
    except WorldError as error:
        if isinstance(error.__cause__, OSError) and error.code == "not-copied":
            raise home.trouble(error.__cause__) from error
        if error.code != "no-such-file":
            raise
        # The file is no longer on the box; the manifest taken afterwards will say so.


def _size_of_regular(path: str, otherwise: int = 0) -> int:
    try:
        seen = os.lstat(path)
    except OSError:
        return otherwise
    return seen.st_size if stat.S_ISREG(seen.st_mode) else otherwise
