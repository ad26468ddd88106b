"""Bringing files home: into a staging folder beside the target, resumed where they were cut, hashed, renamed in."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import NoAnswer
from sojourn.verbs.context import Box, unreachable
from sojourn.wire import atomic, manifest, units
from sojourn.wire.errors import BadResult, Misuse, WorldError

CALL_S = 600.0  # for one stretch of a transfer; the next one goes on where it ended
TRIES = 3  # stretches in a row that brought nothing, before we say that the site cannot be reached
SPARE_BYTES = 16 << 20
UNPROVEN = ".unproven"  # a file that came home whole and does not load: kept for a look, never under its own name
ROSTER = ".sojourn-home.json"  # which files of a home folder came from which run: only those may be overwritten


class HomeUnwritable(Misuse):
    """{path} cannot be written: {detail}."""

    code = "home-unwritable"
    next_step = "sojourn pull {run} --to A-FOLDER"


class HomeFull(BadResult):
    """{path} has no room for what is to come home: {detail}."""

    code = "home-full"
    retry = True
    next_step = "free some room, then sojourn pull {run} (it goes on where it was)"


class NotOurs(Misuse):
    """{home} already holds {count} files that are not from {run}: {some}. Nothing was written."""

    code = "home-taken"
    next_step = "sojourn pull {run} --to ANOTHER-FOLDER"


@dataclass(frozen=True)
class Home:
    """Where a run's files come home. `staging` is in the same file system, so that a rename brings a file in whole."""

    run: str
    folder: str  # absolute

    @property
    def staging(self) -> str:
        """Half-brought files. Left where a pull was cut, for the next one to go on with."""
        return os.path.join(self.folder, f".sojourn-staging-{self.run}")

    def path(self, name: str) -> str:
        """The final path of the manifest's file `name`."""
        return os.path.join(self.folder, *name.split("/"))

    def has(self, row: Mapping[str, Any]) -> bool:
        """The file is here, with exactly the bytes of its row. Reads it whole: size and time prove nothing."""
        path = self.path(row["path"])
        try:
            if os.path.islink(path) or os.path.getsize(path) != row["bytes"]:
                return False
            return manifest.sha256_file(path) == (row["bytes"], row["sha256"])
        except OSError:
            return False

    def staged(self, row: Mapping[str, Any]) -> str:
        """The file's place in the staging folder: one for each content under each name."""
        name = hashlib.sha256(f"{row['path']}\0{row['sha256']}".encode("utf-8", "surrogateescape")).hexdigest()
        return os.path.join(self.staging, name[:32] + os.path.splitext(row["path"])[1])

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Before anything is moved: the folder takes files, has room for `rows`, and nothing of others is overwritten.

        Raises: HomeUnwritable, HomeFull, NotOurs.
        """
        is_new = not os.path.lexists(self.folder)
        try:
            os.makedirs(self.staging, exist_ok=True)
            free = os.statvfs(self.staging)
        except OSError as error:
            raise self.trouble(error) from error
        there = [os.path.getsize(self.staged(r)) if os.path.exists(self.staged(r)) else 0 for r in rows]
        lacking = sum(r["bytes"] for r in rows) - sum(there) + SPARE_BYTES - free.f_bavail * free.f_frsize
        if rows and lacking > 0:
            self.tidy()
            if is_new:
                os.rmdir(self.folder)
            raise HomeFull(path=self.folder, detail=f"{units.say_bytes(lacking)} too little", run=self.run)
        ours = self._brought().get(self.run, {})
        foreign = [r["path"] for r in rows if os.path.lexists(self.path(r["path"])) and r["path"] not in ours]
        if foreign:
            self.tidy()
            some = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
            raise NotOurs(home=self.folder, count=len(foreign), some=some, run=self.run)

    def claim(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Note in the folder that these files are this run's, before they are. Raises: HomeUnwritable, HomeFull."""
        brought = self._brought()
        mine = {**brought.get(self.run, {}), **{row["path"]: row["sha256"] for row in rows}}
        if mine == brought.get(self.run, {}):
            return
        try:
            atomic.write_json(os.path.join(self.folder, ROSTER), {**brought, self.run: mine})
        except OSError as error:
            raise self.trouble(error) from error

    def settle(self, row: Mapping[str, Any], *, is_proven: bool) -> None:
        """Rename the staged file to its final name, or beside that where it does not load. Durable.

        Raises: HomeUnwritable, HomeFull.
        """
        path = self.path(row["path"])
        source, goal = self.staged(row), path if is_proven else path + UNPROVEN
        try:
            os.makedirs(os.path.dirname(goal), exist_ok=True)
            fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(source, goal)
            atomic.sync_folder(os.path.dirname(goal))
            if is_proven and os.path.lexists(path + UNPROVEN):
                os.unlink(path + UNPROVEN)
        except OSError as error:
            raise self.trouble(error) from error

    def _brought(self) -> dict[str, dict[str, str]]:
        """Run -> path -> sha256 of what pulls have brought into this folder."""
        try:
            brought = atomic.read_json(os.path.join(self.folder, ROSTER))
        except OSError as error:
            raise self.trouble(error) from error
        return brought if isinstance(brought, dict) else {}

    def tidy(self) -> None:
        """Remove the staging folder: everything is home, or nothing may come."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def trouble(self, error: OSError) -> Misuse | BadResult:
        """Our error for what this machine's disk said."""
        detail = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return HomeFull(path=self.folder, detail=detail, run=self.run)
        return HomeUnwritable(path=os.fsdecode(error.filename or self.folder), detail=detail, run=self.run)


def is_takeable(row: Mapping[str, Any]) -> bool:
    """Both paths of a manifest's row stay below their roots: what a box says is never trusted with our disk."""
    return manifest.is_safe(str(row.get("path", ""))) and manifest.is_safe(str(row.get("from", "")))


def fetch(box: Box, root: str, home: Home, row: Mapping[str, Any]) -> bool:
    """Bring one file into staging, going on where an earlier try was cut; True where its bytes are those of its row.

    False: the file on the box is not the one of the manifest any more (nothing stays in staging).
    Raises: Unreachable (what came is kept), HomeUnwritable, HomeFull.
    """
    staged = home.staged(row)
    for _ in range(2):  # once from where it was cut, and where that gives other bytes once from the start
        _stretches(box, root, home, row, staged)
        try:
            if os.path.getsize(staged) == row["bytes"] and manifest.sha256_file(staged)[1] == row["sha256"]:
                return True
            os.unlink(staged)
        except OSError as error:
            raise home.trouble(error) from error
    return False


def _stretches(box: Box, root: str, home: Home, row: Mapping[str, Any], staged: str) -> None:
    """Append to the staged file until it is as long as its row, or the far file brings nothing more."""
    idle = 0
    try:
        with open(staged, "ab"):
            pass
        while (have := os.path.getsize(staged)) < row["bytes"]:
            answer = box.transport.get(f"{root}/{row['from']}", staged, offset=have, timeout_s=CALL_S)
            if os.path.getsize(staged) > have:
                idle = 0
                continue
            if not isinstance(answer, NoAnswer):
                return
            idle += 1
            if idle >= TRIES:
                raise unreachable(box.site, answer)
    except OSError as error:
        raise home.trouble(error) from error
    except WorldError as error:
        if isinstance(error.__cause__, OSError) and error.code == "not-copied":
            raise home.trouble(error.__cause__) from error
        if error.code != "no-such-file":
            raise
        # The file is no longer on the box; the manifest taken afterwards will say so.
