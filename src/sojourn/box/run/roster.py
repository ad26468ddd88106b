"""The manifest of a run: every file that its `outputs` match under any attempt, its newest checkpoint while it may
still be resumed, its logs and its keeper's observations at a bad end, hashed as they are now.
"""

from __future__ import annotations

import errno
import os

from sojourn.box.run import saved_files, secrets, shelved, unnamed
from sojourn.box.run.ends import Ends
from sojourn.box.run.root import OURS, Root, attempts_made, read_fields
from sojourn.box.system import globs, opening
from sojourn.box.system.hashing import Hashing
from sojourn.wire import machine, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

    from sojourn.wire.documents import FileRow, Manifest, Spec


_CHUNK = 1 << 20
_ABSENT = (errno.ENOENT, errno.ENOTDIR)  # of what is there any other error says nothing


def take_manifest(
    root: Root,
    spec: Spec,
    attempt: int,
    at: str,
    known: Optional[Mapping[str, Any]] = None,
    also: Sequence[str] = (),
) -> Manifest:
    """Find every output, under every attempt and in the root, and hash it (see wire.manifest).

    For each path the newest attempt's copy comes first, then the root's, then those of older attempts. Once an attempt
    has succeeded, its copy, or the root's, stands alone and others are only counted; before that others are in
    `earlier`, and so is the checkpoint before the newest. A file unchanged since the push is nobody's work and comes
    last. A symlink stands for its target, if that is in the root. What cannot be brought home (a link out of the root,
    a device, a file or folder that cannot be read, a name that is not UTF-8) is in `refused`; nothing is skipped
    silently. What loads and no output names is in `unnamed`. `known`: {"from": {"stat","bytes","sha256"}} of files that
    need not be reread if their stat is unchanged. `also`: outputs that the user named later; none of them is missing.
    """
    taking = _Taking(root, spec, attempt, known or {})
    wanted = spec.get("outputs") or ()
    missing = [glob for glob in taking.outputs([*wanted, *also]) if glob in wanted]
    taking.checkpoints()
    rest = taking.unnamed(spec)
    taking.logs()
    taking.rewritten()
    node = machine.this_machine()
    gone = taking.gone()
    refused = [{"path": path, "why": why} for path, why in taking.refused.items()]
    found = {"earlier": taking.earlier, "gone": gone, "superseded": taking.superseded, "removed": taking.removed}
    found["unnamed"] = rest
    return manifest.document(root.id, attempt, at, taking.rows.values(), missing, refused, node, **found)


def hashed_before(root: Root) -> Dict[str, FileRow]:
    """What the last seal hashed, to pass as `known`."""
    sealed = read_fields(root.manifest)
    rows = [row for key in ("files", "earlier") for row in _dicts(sealed.get(key))]
    return {str(row.get("from")): row for row in rows if row.get("stat")}


class _Taking:
    """One look at a root. `rows`: by path."""

    def __init__(self, root: Root, spec: Spec, attempt: int, known: Mapping[str, Any]) -> None:
        self.root = root
        self.top = os.path.realpath(root.path)
        self.ends = Ends(root.events)
        self.done = self.ends.succeeded
        self.rows: Dict[str, FileRow] = {}
        self.earlier: List[FileRow] = []
        self.refused: Dict[str, str] = {}
        self.superseded = 0
        self.removed = 0
        self.seen: Set[str] = set()  # every path that a glob matched
        self.hashing = Hashing(root.path, known)
        self.pushed = unnamed.pushed(root, spec)
        self.persist = [str(path) for path in spec.get("persist") or ()]
        self.sealed = read_fields(root.manifest)
        numbers = sorted({attempt, *attempts_made(root)}, reverse=True)
        first = self.done or attempt
        self.folders = [root.attempt(first), root.kept, root.path] + [root.attempt(n) for n in numbers if n != first]

    def outputs(self, wanted: Any) -> List[str]:
        """Take what the globs match; note those without a match."""
        missing = []
        places: Dict[str, List[str]] = {}  # path -> the folders that have it, in order
        for glob in wanted:
            is_hit = False
            for folder in self.folders:
                unseen: Dict[str, str] = {}
                for path in globs.hits(folder, glob, OURS, self.top, unseen):
                    if saved_files.is_left(folder, path):
                        continue
                    is_hit = True
                    those = places.setdefault(path, [])
                    if folder not in those:
                        those.append(folder)
                for path, why in unseen.items():  # it may hold what the glob means: unknown is not "never made"
                    is_hit = True
                    is_first = folder == self.folders[0]
                    self._refuse(path if is_first else os.path.relpath(os.path.join(folder, path), self.root.path), why)
            if not is_hit:
                missing.append(glob)
        for path in sorted(places):
            self.seen.add(path)
            self._output(path, sorted(places[path], key=self.folders.index))
        return missing

    def _refuse(self, path: str, why: str) -> None:
        self.refused.setdefault(_utf8(path), why)

    def _output(self, path: str, folders: List[str]) -> None:
        shown = _utf8(path)
        if shown != path:
            self.refused[shown] = "its name is not UTF-8"
            return
        usable: List[str] = []
        for folder in folders:
            why, real = opening.below(self.root.path, os.path.join(folder, path))
            if not why:
                if real not in usable:
                    usable.append(real)
            elif not usable:
                self.refused.setdefault(path, why)
            elif self.done:
                self.superseded += 1
            else:
                self._refuse_older(os.path.join(folder, path), why)
        if self.done:
            self._alone(path, usable)
        else:
            self._each(path, usable)

    def _alone(self, path: str, usable: List[str]) -> None:
        """An attempt has succeeded: its first readable copy stands, those that differ are counted.

        But a copy unchanged since the push was not made by that attempt, and replaces nothing made by an earlier one.
        """
        rows = [row for row in (self._hash(path, real, "output") for real in self._tried(path, usable)) if row]
        made = [row for row in rows if _content(row) != self.pushed.get(path)]
        if not rows:
            return
        row = self.rows[path] = (made or rows)[0]
        first = os.path.join(self.top, row["from"])
        self.superseded += sum(not _is_same(self.root.path, first, real) for real in usable if real != first)

    def _tried(self, path: str, usable: List[str]) -> Iterator[str]:
        """The candidates among the files, hashed as far as needed to tell."""
        for real in usable:
            yield real
            known = self.hashing.rows.get(real)
            if known and _content(known) != self.pushed.get(path):
                return

    def _each(self, path: str, usable: List[str]) -> None:
        """No attempt has: all different copies count, those changed since the push first."""
        rows: List[FileRow] = []
        for real in usable:
            row = self._hash(path, real, "output") if not rows else self._hash_older(path, real)
            if row and not any(_content(row) == _content(other) for other in rows):
                rows.append(row)
        if path in self.pushed:
            rows.sort(key=lambda row: _content(row) == self.pushed[path])  # stable
        if rows:
            self.rows[path] = rows[0]
            self.earlier += rows[1:]

    def _hash_older(self, path: str, real: str) -> Optional[FileRow]:
        kept = dict(self.refused)
        row = self._hash(path, real, "output")
        if row is None:
            why = self.refused.get(path, "")
            self.refused = kept
            self._refuse_older(real, why)
        return row

    def _refuse_older(self, full: str, why: str) -> None:
        """By location: a better candidate exists for the path itself."""
        self.refused[os.path.relpath(full, self.root.path if full.startswith(self.root.path) else self.top)] = why

    def checkpoints(self) -> None:
        """While the run may be resumed: the newest committed checkpoint, and the previous one as `earlier`."""
        if self.done:
            return
        folder = self.root.checkpoints
        for _ in range(5):  # a living training may remove what we list
            unseen: Dict[str, str] = {}
            found = shelved.committed(folder, unseen)[:2]
            sets = [self._set(folder, name) for name in found]
            if all(rows is not None for rows in sets) or found == shelved.committed(folder)[:2]:
                break
        for name, why in unseen.items():
            self._refuse("checkpoints/" + name if name else "checkpoints", manifest.UNSEEN + why)
        for number, rows in enumerate(sets):
            for row in rows or ():
                mine = self.rows.get(row["path"])
                if mine and mine["from"] == row["from"]:
                    mine["set"] = row["set"]
                elif number == 0 and mine is None:
                    self.rows[row["path"]] = row
                else:
                    self.earlier.append(row)

    def _set(self, folder: str, name: str) -> Optional[List[FileRow]]:
        """The rows of one checkpoint; None if it was removed meanwhile."""
        try:
            paths = shelved.files_of(folder, name)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            self._refuse("checkpoints/" + name, manifest.UNSEEN + (error.strerror or str(error)))
            return []
        rows: List[FileRow] = []
        for inner in paths:
            path = "checkpoints/" + inner
            why, real = opening.below(self.root.path, os.path.join(folder, inner))
            if _utf8(path) != path:
                path, why = _utf8(path), "its name is not UTF-8"
            if why and not _may_exist(os.path.join(folder, inner)):
                return None
            row = None if why else self._hash(path, real, "checkpoint")
            if why:
                self.refused[path] = why
            if row:
                row["set"] = name
                rows.append(row)
            elif not _may_exist(os.path.join(folder, inner)):
                self.refused.pop(path, None)
                return None
        return rows

    def unnamed(self, spec: Spec) -> List[Dict[str, Any]]:
        """What loads and no output names, as in `unnamed.find`."""
        named = {*self.seen, *self.rows}
        named.update(os.path.join(self.top, row["from"]) for row in [*self.rows.values(), *self.earlier])
        before = {**unnamed.mounted(self.root, spec), **self.pushed}
        rows, unseen = unnamed.find(self.root, spec, self.folders, named, before)
        for path, why in unseen.items():
            self._refuse(path, manifest.UNSEEN + why)
        return [dict(row, path=_utf8(row["path"])) for row in rows]

    def logs(self) -> None:
        """While the secrets are here the logs may contain them: logs come home once the keeper has masked them."""
        for number in () if secrets.exist(self.root) else attempts_made(self.root):
            for path in ("logs/%d.log.1" % number, "logs/%d.log" % number, "evidence/%d.json" % number):
                full = os.path.join(self.root.path, path)
                if path in self.rows or not _may_exist(full):
                    continue
                why, real = opening.below(self.root.path, full)
                row = None if why else self._hash(path, real, "log")
                if why:
                    self.refused[path] = why
                if row:
                    self.rows[path] = row

    def gone(self) -> List[FileRow]:
        """What the seal proves to have existed and is gone. Repeated in each seal.

        Except what a later attempt itself removed: older checkpoints, and what was in a place that attempts share and
        still there when that attempt was prepared. These are counted.
        """
        follower = self._follower()
        vanished = self.ends.vanished.get(follower)  # None: its keeper did not look
        self.removed = _count(self.sealed.get("removed"))
        newest = max([shelved.rank(name) for name in shelved.committed(self.root.checkpoints)] or [(0, 0, 0)])
        found: Dict[str, Any] = {}
        for row in _dicts(self.sealed.get("files")):
            path, role = str(row.get("path")), row.get("role")
            if role not in ("output", "checkpoint") or self._is_there(path) or saved_files.is_unfinished(path):
                continue
            name = path.partition("/")[2].partition("/")[0] if path.startswith("checkpoints/") else ""
            was_replaced = bool(name) and (0, 0, 0) < shelved.rank(name) < newest
            if role == "checkpoint" and (self.done or was_replaced):
                continue
            is_own = str(row.get("from")).startswith("attempts/")
            if vanished is None:
                was_removed = bool(follower) and not is_own
            else:
                was_removed = path not in vanished and (not is_own or _is_in(path, self.persist))
            if was_replaced or was_removed:
                self.removed += role == "output"
                continue
            found[path] = row
        for row in _dicts(self.sealed.get("gone")):
            path = str(row.get("path"))
            if not self._is_there(path):
                found[path] = row
        gone = (found[path] for path in sorted(found))
        return [{"path": row.get("path"), "bytes": row.get("bytes"), "sha256": row.get("sha256")} for row in gone]

    def rewritten(self) -> None:
        """Record the earlier hash in the row of each output changed after it was sealed, though by no attempt."""
        for old in () if self._follower() else _dicts(self.sealed.get("files")):
            row = self.rows.get(str(old.get("path")))
            if row and row["role"] == "output" and row["from"] == old.get("from"):
                before = old.get("sealed", old.get("sha256"))
                if before != row["sha256"] and manifest.is_digest(before):
                    row["sealed"] = before

    def _follower(self) -> int:
        """The first attempt that started since the seal; 0 if there is none."""
        before = self.sealed.get("attempt")
        return self.ends.first_after(before) if isinstance(before, int) else 0

    def _is_there(self, path: str) -> bool:
        """Whether a sealed file may be there. If that cannot be seen, it is in `refused`."""
        if path in self.rows or path in self.seen or path in self.refused:
            return True
        for folder in self.folders:
            try:
                os.lstat(os.path.join(folder, path))
                return True
            except OSError as error:
                if error.errno not in _ABSENT:
                    if not any((path + "/").startswith(one + "/") for one in self.refused):
                        self._refuse(path, manifest.UNSEEN + (error.strerror or str(error)))
                    return True
        return False

    def _hash(self, path: str, real: str, role: str) -> Optional[FileRow]:
        """The row of a file; None, with the reason in `refused`, if it is unreadable."""
        try:
            row = self.hashing.row(real)
        except OSError as error:
            self.refused[path] = error.strerror or str(error)
            return None
        row["path"], row["role"] = path, role
        return row


def _may_exist(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno not in _ABSENT
    return True


def _is_same(root: str, one: str, other: str) -> bool:
    """Whether two files hold the same bytes; False if that cannot be checked. Stops at the first difference."""
    try:
        with open(opening.open_below(root, one), "rb") as a, open(opening.open_below(root, other), "rb") as b:
            left = os.fstat(a.fileno()).st_size
            if os.fstat(b.fileno()).st_size != left:
                return False
            while left > 0:
                part = a.read(min(_CHUNK, left))
                if not part or part != b.read(len(part)):
                    return False
                left -= len(part)
            return True
    except OSError:
        return False


def vanished(root: Root, spec: Spec, number: int) -> List[str]:
    """Which outputs and checkpoints of the last seal are gone from the places that attempts share, while none lives:
    attempt `number` is being prepared and has the persisted folders.
    """
    persist = [str(path) for path in spec.get("persist") or ()]
    found = []
    for row in _dicts(read_fields(root.manifest).get("files")):
        path = str(row.get("path"))
        is_shared = not str(row.get("from")).startswith("attempts/") or _is_in(path, persist)
        if row.get("role") in ("output", "checkpoint") and is_shared:
            if not any(_may_exist(os.path.join(folder, path)) for folder in (root.attempt(number), root.path)):
                found.append(path)
    return found


def _is_in(path: str, folders: List[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in map(os.path.normpath, folders))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _dicts(rows: Any) -> Iterator[Any]:
    """The valid rows in it, as far as visible; an older keeper may have written it."""
    return (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else iter(())


def _content(row: FileRow) -> Tuple[int, str]:
    return row["bytes"], row["sha256"]


def _utf8(path: str) -> str:
    """The path, if expressible; another text if its name is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
