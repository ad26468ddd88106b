"""`sojourn verify`: load-check any file or folder, with or without the manifest that says what should be there.

Needs no run and no history. Reads only what it is given, and writes nothing but its own record of what it has proven,
so that a `verify` that was ended goes on where it was.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.backends.proof import regular
from sojourn.backends.proof.many import prove_each
from sojourn.backends.proof.proof import Prover, Task, cores, open_book
from sojourn.core.artifact import Artifact, printable
from sojourn.store import places
from sojourn.verbs.retrieve.below import Below, below, refused
from sojourn.verbs.retrieve.folders import half_written
from sojourn.wire import manifest as manifests
from sojourn.wire.errors import BadResult, Misuse
from sojourn.wire.units import say_bytes

_MANIFEST_LIMIT_BYTES = 256 << 20
_SAID_EVERY_BYTES = 64 << 20


class NoSuchPath(Misuse):
    """{path}: {detail}"""

    code = "no-such-path"


class BadManifest(Misuse):
    """{path}: this manifest cannot be trusted: {detail}"""

    code = "bad-manifest"


class NothingToVerify(BadResult):
    """{path}: contains no files, so nothing was verified"""

    code = "nothing-to-verify"


@dataclass(frozen=True)
class Verified:
    """What `verify` found. `artifacts`: sorted by path; `files`, `bytes`: what was read.

    `roster`: {"digest", "missing", "unexpected", "differs", "never_made"} against a manifest (lists of paths; globs for
    `never_made`: owed, and the box had no such file), {} without one. `remembered`: files that were not read, because
    they are unchanged since they were proven.
    """

    artifacts: tuple[Artifact, ...]
    files: int
    bytes: int
    seconds: float
    roster: Mapping[str, Any]
    remembered: int = 0

    @property
    def ok(self) -> bool:
        """Everything that was asked for is there and proves."""
        return all(artifact.ok for artifact in self.artifacts)

    @property
    def exit_status(self) -> int:
        """0, or 1 where something does not prove."""
        return 0 if self.ok else 1

    def as_json(self) -> dict[str, Any]:
        """The `verify` document of docs/json.md."""
        return {
            "schema": "sojourn/verify/v1",
            "ok": self.ok,
            "artifacts": [artifact.as_json() for artifact in self.artifacts],
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "roster": dict(self.roster) or None,
            "folders": half_written(self.artifacts),
            "remembered": self.remembered,
        }


def verify(
    paths: Sequence[str],
    manifest: str | None = None,
    *,
    say: Callable[[str], None] | None = None,
    processes: int = 0,
    fresh: bool = False,
    across: bool = False,
) -> Verified:
    """Prove every file at or below `paths`; with `manifest` (a file), of one folder, both rosters are compared first.

    A path that is itself a link is followed where it stays in its folder, links below it where they stay below it.
    What is mounted below a path is read only with `across`; pipes, devices and what the kernel makes up never. `say`
    gets a line of progress while files are read and after each. Uses `processes` cores (0: all) and at most 512 MiB of
    memory for all. A file that was proven before and is unchanged since (size, times, inode) is not read again, unless
    `fresh`.
    Raises: NoSuchPath, BadManifest, NothingToVerify, OSError (the manifest cannot be read).
    """
    began_s = time.monotonic()
    for path in paths:
        if not os.path.exists(path):
            raise NoSuchPath(path=printable(path), detail="no such file or folder")
    if manifest:
        tasks, settled, roster = _against(paths, manifest, across)
    else:
        tasks, settled = _all_of(paths, across)
        roster = {}
    if not tasks and not settled:
        raise NothingToVerify(path=", ".join(printable(path) for path in paths))
    proofs = settled + _prove_all(tasks, processes or cores(), say, fresh)
    proofs.sort(key=lambda proof: proof.path)
    if roster:
        expected = {task.name for task in tasks}
        roster["differs"] = [p.path for p in proofs if p.path in expected and not p.ok and "bytes" not in p.proved]
    read = [proof for proof in proofs if proof.sha256]
    return Verified(
        tuple(proofs),
        len(read),
        sum(proof.bytes for proof in read),
        time.monotonic() - began_s,
        roster,
        sum(1 for proof in proofs if proof.remembered),
    )


def _all_of(paths: Sequence[str], across: bool) -> tuple[list[Task], list[Artifact]]:
    tasks, settled = [], []
    for path in paths:
        problem, why = refused(path)
        if problem:
            settled.append(Artifact(path, problem=problem, detail=why))
            continue
        if not os.path.isdir(path):
            tasks.append(Task(os.path.realpath(path), path))
            continue
        seen = below(path, is_across=across)
        # Of several paths each keeps its own name in front, so that two files of one name can be told apart.
        front = "" if len(paths) == 1 else path.rstrip("/") + "/"
        tasks += [Task(os.path.join(os.path.realpath(path), name), front + name) for name in seen.found]
        settled += _closed(seen, front)
    return tasks, settled


def _closed(seen: Below, front: str = "") -> list[Artifact]:
    return [Artifact(front + name, problem=problem, detail=why) for name, problem, why in seen.closed]


def _against(paths: Sequence[str], manifest: str, across: bool) -> tuple[list[Task], list[Artifact], dict[str, Any]]:
    """(files to prove, what is settled by the rosters alone, the comparison)."""
    if len(paths) != 1 or not os.path.isdir(paths[0]):
        raise Misuse(detail="a manifest describes one folder: name exactly that folder")
    problem, why = refused(paths[0])
    if problem:
        raise NoSuchPath(path=printable(paths[0]), detail=why)
    root = os.path.realpath(paths[0])
    document = read_manifest(manifest)
    rows = {row["path"]: (row["bytes"], row["sha256"]) for row in document["files"]}
    seen = below(root, is_across=across)
    own = os.path.realpath(manifest)
    there = {name for name in seen.found if os.path.realpath(os.path.join(root, name)) != own or name in rows}
    missing, unexpected = sorted(rows.keys() - there), sorted(there - rows.keys())
    settled = _closed(seen)
    settled += [Artifact(name, problem="missing", detail="in the manifest but not here") for name in missing]
    settled += [Artifact(name, problem="mismatch", detail="here but not in the manifest") for name in unexpected]
    tasks = [Task(os.path.join(root, name), name, rows[name]) for name in sorted(there & rows.keys())]
    roster = {
        "digest": document["digest"],
        "missing": missing,
        "unexpected": [printable(name) for name in unexpected],
        "differs": [],
        "never_made": list(document.get("missing", [])),
    }
    return tasks, settled, roster


def read_manifest(path: str) -> Mapping[str, Any]:
    """The document, whose own digest fits and whose paths stay below their folder. Raises: NoSuchPath, BadManifest."""
    shown = printable(path)
    try:
        raw = regular.read_regular(path, _MANIFEST_LIMIT_BYTES)
    except FileNotFoundError as error:
        raise NoSuchPath(path=shown, detail="no such manifest") from error
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENXIO):  # a socket answers an open with ENXIO
            raise
        raise NoSuchPath(path=shown, detail=f"no manifest: {error.strerror}") from error
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadManifest(path=shown, detail="it is not JSON") from error
    if not isinstance(document, dict) or document.get("schema") != manifests.SCHEMA:
        raise BadManifest(path=shown, detail=f"its schema is not {manifests.SCHEMA}")
    files = document.get("files")
    if not isinstance(files, list) or not all(_is_row(row) for row in files):
        raise BadManifest(path=shown, detail="a row is not path, bytes and sha256 of a file below its folder")
    if len({row["path"] for row in files}) < len(files):
        raise BadManifest(path=shown, detail="it lists a path twice")
    if document.get("digest") != manifests.roster_digest(files):
        raise BadManifest(path=shown, detail="its digest does not match its rows: it was changed or truncated")
    return document


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("path"), str)
        and manifests.is_safe(row["path"])
        and type(row.get("bytes")) is int
        and isinstance(row.get("sha256"), str)
        and len(row["sha256"]) == 64
    )


def _prove_all(tasks: Sequence[Task], processes: int, say: Callable[[str], None] | None, fresh: bool) -> list[Artifact]:
    """Every proof, in no order."""
    sizes = [_size_bytes(task.path) for task in tasks]
    progress = Counted(len(tasks), sum(sizes), say)
    proofs: list[Artifact] = []
    with open_book(book_path()) as book, Prover(processes, book=book, fresh=fresh, tick=progress.read) as prover:
        for _, proof in prove_each(prover, tasks, sizes, processes):
            proofs.append(proof)
            progress.proven()
    return proofs


def book_path() -> str:
    """Where this machine keeps its record of proofs; "" where it has no home folder."""
    try:
        return os.path.join(places.cache_dir(), "proofs.sqlite")
    except places.Homeless:
        return ""


class Counted:
    """A line of progress from what several threads have read and proven: "verified 3 of 14 files, 1.2 of 2.3 GiB"."""

    def __init__(self, files: int, size_bytes: int, say: Callable[[str], None] | None) -> None:
        self._files, self._total_bytes, self._say = files, size_bytes, say
        self._lock = threading.Lock()
        self._proven = self._read_bytes = self._said_bytes = 0

    def read(self, count: int) -> None:
        """Count bytes that were read; reports about every 1 % or 64 MiB."""
        with self._lock:
            self._read_bytes += count
            if self._read_bytes - self._said_bytes >= min(_SAID_EVERY_BYTES, max(self._total_bytes // 100, 1 << 20)):
                self._tell()

    def proven(self) -> None:
        """One file more is done."""
        with self._lock:
            self._proven += 1
            self._tell()

    def _tell(self) -> None:
        self._said_bytes = self._read_bytes
        if self._say:
            of = f"{say_bytes(min(self._read_bytes, self._total_bytes))} of {say_bytes(self._total_bytes)}"
            self._say(f"verified {self._proven} of {self._files} files, {of}")


def _size_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
