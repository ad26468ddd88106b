"""The manifest of a run: every file that its `outputs` name, its logs and what its keeper saw at a bad end, hashed as
they are now.
"""

from __future__ import annotations

import os
import stat

from sojourn.box import globs, secrets
from sojourn.box.history import ended_as
from sojourn.box.root import OURS, Root, attempts_made, read_fields
from sojourn.wire import machine, manifest, saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Tuple


def take(
    root: Root,
    spec: Dict[str, Any],
    attempt: int,
    at: str,
    known: Mapping[str, Dict[str, Any]] | None = None,
    is_sealing: bool = False,
) -> Dict[str, Any]:
    """Look every output up, under every attempt and in the root, and hash it (see wire.manifest).

    Of a path, the succeeded attempt's file (or the root's) stands alone. Where no attempt succeeded, the newest one is
    in `files` and what older attempts have instead in `earlier`. A path that only an older attempt has is owed like any
    other. Until an attempt succeeded, the newest committed checkpoint is a row too, the one before it in `earlier`.
    A symlink stands for the file it leads to, as long as that lies in the root. What cannot be taken home (a link out
    of the root, a device, an unreadable file, a name that is not UTF-8) is in `refused`; nothing is passed over in
    silence. `known`: `from` -> {"stat","bytes","sha256"}, not hashed again where the file's stat is still that.
    `is_sealing`: the manifest is to be sealed, so that nothing can be gone from it.
    """
    ends = ended_as(root.events)
    won = max((number for number, state in ends.items() if state == "succeeded"), default=0)
    taken = _Taken(root, known or {})
    missing = [glob for glob in spec.get("outputs") or () if not _outputs(taken, root, glob, won or attempt)]
    superseded = taken.count_older() if won else 0
    if not won:
        taken.add_older()
        _checkpoints(taken, root)
    # While the secrets are here, the logs may still hold them: they come home when the keeper has hidden them.
    for number in () if secrets.exist(root) else attempts_made(root):
        for path in ("logs/%d.log.1" % number, "logs/%d.log" % number, "evidence/%d.json" % number):
            full = os.path.join(root.path, path)
            if os.path.exists(full) and path not in taken.rows:
                taken.add(path, full, "log")
    told = [{"path": path, "why": why} for path, why in taken.refused.items()]
    gone = [] if is_sealing else _gone(taken, root, attempt)
    rows, node = taken.rows.values(), machine.this_machine()
    return manifest.document(root.id, attempt, at, rows, missing, told, node, taken.earlier, gone, superseded)


class _Taken:
    """What was found so far. `older`: full path -> path of what older attempts have of a path in `rows`."""

    def __init__(self, root: Root, known: Mapping[str, Dict[str, Any]]) -> None:
        self.root, self.known = root, known
        self.rows: Dict[str, Dict[str, Any]] = {}
        self.earlier: List[Dict[str, Any]] = []
        self.refused: Dict[str, str] = {}
        self.older: Dict[str, str] = {}

    def add(self, path: str, full: str, role: str, **more: str) -> bool:
        """The file as a row of `rows`, or in `refused`; whether it became a row."""
        row = self.row(path, full, role)
        if row is not None:
            self.rows[path] = dict(row, **more)
        return row is not None

    def add_older(self) -> None:
        """Of each path, the contents that older attempts have and no newer one has, newest first."""
        seen = {(path, row["sha256"]) for path, row in self.rows.items()}
        for full, path in self.older.items():
            row = self.row(path, full, "output")
            if row is not None and (path, row["sha256"]) not in seen:
                seen.add((path, row["sha256"]))
                self.earlier.append(row)

    def count_older(self) -> int:
        """How many of `older` are other files, by size and time: code is copied for each attempt, with its times."""
        seen = ((self.rows[path]["stat"], os.lstat(full)) for full, path in self.older.items())
        return sum([stat.st_size, stat.st_mtime_ns] != known[2:4] for known, stat in seen)

    def row(self, path: str, full: str, role: str) -> Dict[str, Any] | None:
        """The file, hashed; None where it is refused."""
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            self.refused[os.fsencode(path).decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
            return None
        why, real = below(self.root.path, full)
        if why:
            self.refused[path] = why
            return None
        source = os.path.relpath(real, os.path.realpath(self.root.path))
        try:
            known = self.known.get(source) or {}
            if known.get("stat") == manifest.identity(os.lstat(real)):
                size, digest, seen = known["bytes"], known["sha256"], known["stat"]
            else:
                size, digest, seen = manifest.sha256_seen(real, follow=False)
        except OSError as error:
            self.refused[path] = error.strerror or str(error)
            return None
        return {"path": path, "from": source, "bytes": size, "sha256": digest, "role": role, "stat": seen}


def _outputs(taken: _Taken, root: Root, glob: str, newest: int) -> bool:
    """Add what one glob hits, in the order in which one stands for the other; whether it hit anything.

    `newest`: the attempt that succeeded, or the last one.
    """
    others = [number for number in reversed(attempts_made(root)) if number != newest]
    places = [(root.attempt(newest), frozenset()), (root.path, OURS)]
    found = False
    for folder, hidden in places + [(root.attempt(number), frozenset()) for number in others]:
        for path in globs.hits(folder, glob, hidden):
            found, full = True, os.path.join(folder, path)
            if path not in taken.rows:
                taken.add(path, full, "output")
            elif not os.path.samefile(full, os.path.join(root.path, taken.rows[path]["from"])):
                taken.older[full] = path
    return found


def _checkpoints(taken: _Taken, root: Root) -> None:
    """The newest committed checkpoint as rows, the one before it in `earlier`."""
    try:
        names = saved.newest_first(os.listdir(root.checkpoints))
    except OSError:
        return
    whole = [name for name in names if _is_committed(os.path.join(root.checkpoints, name))]
    for rank, name in enumerate(whole[:2]):
        for path in _files_of(root, name):
            known = taken.rows.get(path)
            if known is not None:
                known["set"] = name
            elif rank == 0:
                taken.add(path, os.path.join(root.path, path), "checkpoint", set=name)
            else:
                row = taken.row(path, os.path.join(root.path, path), "checkpoint")
                taken.earlier += [dict(row, set=name)] if row else []


def _is_committed(path: str) -> bool:
    """A file was renamed into its name when it was whole; a folder counts with its seal."""
    return os.path.isfile(path) or os.path.isfile(os.path.join(path, "sojourn-seal.json"))


def _files_of(root: Root, name: str) -> List[str]:
    """Paths of a checkpoint's files below the root, sorted."""
    full = os.path.join(root.checkpoints, name)
    if not os.path.isdir(full):
        return ["checkpoints/" + name]
    return ["checkpoints/%s/%s" % (name, inner) for inner in manifest.walk(full)]


def _gone(taken: _Taken, root: Root, attempt: int) -> List[Dict[str, Any]]:
    """Rows that this attempt's seal has as outputs and that are nowhere any more.

    An older attempt's seal proves nothing: a later attempt may delete what an earlier one wrote.
    """
    sealed = read_fields(root.manifest)
    if sealed.get("attempt") != attempt:
        return []
    there = set(taken.rows) | set(taken.refused) | {row["path"] for row in taken.earlier}
    return [
        {key: row[key] for key in ("path", "from", "bytes", "sha256", "role")}
        for row in sealed.get("files") or ()
        if row.get("role") == "output" and row["path"] not in there
    ]


def below(root: str, full: str) -> Tuple[str, str]:
    """("", real path) of a regular file whose real path lies below `root`; else (why not, "")."""
    top = os.path.realpath(root)
    real = os.path.realpath(full)
    if not real.startswith(top + os.sep):
        return "a symlink out of the run's root", ""
    if real in (os.path.join(top, "secrets.json"), os.path.join(top, "secrets.json.new")):
        return "the run's secrets", ""
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        return ("a symlink to nothing" if os.path.islink(full) else error.strerror or str(error)), ""
    return ("", real) if stat.S_ISREG(mode) else ("not a regular file", "")
