"""The working copy of an attempt: the code, the file mounts, and a scratch folder, which is never owed."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import contextmanager

from sojourn.box.run import tree
from sojourn.box.run.root import Root
from sojourn.box.system import umask
from sojourn.wire import manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple

    from sojourn.wire.documents import Spec


class Unprepared(Exception):
    """Why an attempt could not be prepared; shown to the user as the run's reason.

    `stage`: prepare, setup or start.
    """

    def __init__(self, detail: str, stage: str = "prepare", rc: int | None = None) -> None:
        super().__init__(detail)
        self.stage = stage
        self.rc = rc


def working_copy(root: Root, spec: Spec, attempt: int) -> Dict[str, Any]:
    """Fill attempts/N; {"files","bytes","linked","shared"}. Removes an earlier try's leftovers: nothing ran in it.

    Raises: Unprepared.
    """
    folder = root.attempt(attempt)
    try:
        tree.clear(folder)
        with umask.Theirs():
            copied = _filled(root, spec, folder)
    except tree.Damaged as error:
        raise Unprepared(str(error)) from error
    except OSError as error:
        raise Unprepared("the working copy: %s" % error) from error
    return copied


def pushed(root: Root, spec: Spec) -> Dict[str, Any]:
    """The rows of the code by path; empty if unreadable."""
    try:
        rows = tree.read_roster(root.base, str(spec["code"])) if spec.get("code") else []
    except (OSError, tree.Damaged):
        return {}
    return {str(row.get("path")): row for row in rows}


def _filled(root: Root, spec: Spec, folder: str) -> Dict[str, int]:
    copied = {"files": 0, "bytes": 0, "linked": 0, "shared": 0}
    code = str(spec.get("code") or "")
    if code:
        with _disowned_if_damaged(root, code):
            copied = tree.copy(root.base, code, folder)
    for target, what in sorted((spec.get("mounts") or {}).items()):
        with _disowned_if_damaged(root, what.partition("/")[0]):
            for key, value in _mount(root, folder, target, what).items():
                copied[key] += value
    return copied


@contextmanager
def _disowned_if_damaged(root: Root, digest: str) -> Iterator[None]:
    try:
        yield
    except tree.Damaged:
        try:
            tree.disown(root.base, digest)
        except OSError:
            pass  # it is missing, or another attempt found the same
        raise


def _mount(root: Root, folder: str, target: str, what: str) -> Dict[str, int]:
    """One file mount. `what`: the digest of a snapshot, or "<digest>/<path>" for one file of it.

    A relative target is in the working copy. An absolute one becomes a symlink into the snapshot, if nothing is there
    yet; its content is verified again before each attempt.
    """
    digest, _, member = what.partition("/")
    if os.path.isabs(target):
        source = os.path.join(tree.snapshot(root.base, digest), "tree", member).rstrip("/")
        tree.check(root.base, digest, member)
        _point(target.rstrip("/") or "/", source)
        return {}
    relative = os.path.normpath(target)
    if not manifest.is_safe(relative):
        raise Unprepared("file_mounts: %s does not lie in the working copy" % target)
    goal = os.path.join(folder, relative)
    if os.path.lexists(goal) and (member or not os.path.isdir(goal) or os.listdir(goal)):
        raise Unprepared("file_mounts: %s is already there" % target)
    if not member:
        return tree.copy(root.base, digest, goal)
    rows = [row for row in tree.read_roster(root.base, digest) if row["path"] == member]
    if not rows:
        raise Unprepared("file_mounts: %s is not in its snapshot" % target)
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    source = os.path.join(tree.snapshot(root.base, digest), "tree", member)
    is_shared = tree.copy_file(source, goal, rows[0], tree.marks(root.base, digest).get(member))
    return {"files": 1, "bytes": int(rows[0]["bytes"]), "shared": int(is_shared)}


def _point(target: str, source: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(source, target)
    except FileExistsError as error:
        if not (os.path.islink(target) and os.readlink(target) == source):
            raise Unprepared(
                "file_mounts: %s already exists, and a mount never overwrites anything" % target
            ) from error
    except OSError as error:
        raise Unprepared("file_mounts: %s cannot be created: %s" % (target, error.strerror)) from error


def scratch(root: Root) -> str:
    """A folder for disposable files, on the box's own temporary disk; created. The same for every attempt of the run.

    A shared temporary folder belongs to everybody, so ours must be our own and closed; else it is in the root.
    Raises: OSError.
    """
    own, folder = _scratch_place(root)
    try:
        os.makedirs(own, mode=0o700, exist_ok=True)
        there = os.lstat(own)
        if there.st_uid != os.getuid() or there.st_mode & 0o077 or os.path.islink(own):
            raise OSError(errno.EACCES, "not ours alone")
        os.makedirs(folder, exist_ok=True)
        return folder
    except OSError:
        folder = os.path.join(root.path, "scratch")
        os.makedirs(folder, exist_ok=True)
        return folder


def drop_scratch(root: Root, is_needed: bool) -> None:
    """Remove the run's scratch folder: scratch is never owed. Stays if a later attempt may use it (`is_needed`)."""
    own, folder = _scratch_place(root)
    if not is_needed:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    for path in (folder, os.path.join(root.path, "scratch"), own):
        try:
            os.rmdir(path)
        except OSError:
            continue  # missing, or not empty


def _scratch_place(root: Root) -> Tuple[str, str]:
    own = os.path.join(os.environ.get("TMPDIR") or "/tmp", "sojourn-%d" % os.getuid())
    return own, os.path.join(own, "%s-%s" % (root.id, hashlib.sha256(os.fsencode(root.path)).hexdigest()[:8]))
