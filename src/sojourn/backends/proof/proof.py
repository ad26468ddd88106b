"""Verifying one artifact: its bytes are those expected, and it loads."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from sojourn.backends.proof import regular
from sojourn.backends.proof.judge import Judgement, Siblings, is_of_a_set, kind_by_name
from sojourn.backends.proof.loading import Loading
from sojourn.core.artifact import UNKNOWN, Artifact, printable
from sojourn.core.values import state_of
from sojourn.store import proofs
from sojourn.wire import names, units


@dataclass(frozen=True)
class Task:
    """One file to verify: where it lies, what it is called, and what is expected, as `Prover.prove` takes them."""

    path: str
    name: str
    expect: tuple[int, str] | None = None
    beside: Mapping[str, str] | None = None


@dataclass
class _Case:
    """A file that is being verified. `found`: judged together with others. `held`: for the book, under `key`."""

    task: Task
    seen: os.stat_result
    remarks: tuple[str, ...]
    began_ns: int
    is_settled: bool
    key: str = ""
    found: Judgement | None = None
    held: dict[str, Any] | None = None


class Prover:
    """Verifies many artifacts with the same few processes. A context manager; for twice as many threads as `processes`.

    `book`: earlier verifications; a file unchanged since is not read again, unless `fresh`. `tick` gets the number of
    bytes read, now and then.
    """

    def __init__(
        self,
        processes: int = 0,
        *,
        book: proofs.Proofs | None = None,
        fresh: bool = False,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self._book, self._fresh, self.tick = book, fresh, tick
        self._loading = Loading(processes or cores())

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loading.__exit__(kind, error, at)

    def prove(
        self,
        path: str,
        name: str,
        expect: tuple[int, str] | None = None,
        beside: Mapping[str, str] | None = None,
    ) -> Artifact:
        """Hash and load the file at `path`, which is called `name`. `expect`: its (bytes, sha256) in a manifest.
        `beside`: paths of the files that belong in one folder with it, by their last names; None: beside `path`.

        The answer contains whatever is wrong with the file; nothing is raised for it, and nothing in it is run. A file
        that changes while being read is a `mismatch`.
        """
        task = Task(path, name, expect, beside)
        found = self._open(task, os.path.realpath)
        if isinstance(found, Artifact):
            return found
        proof = self._judged(found)
        self._keep([found])
        return proof

    def prove_many(self, tasks: Sequence[Task]) -> list[Artifact]:
        """`prove` of several small files, with few questions to the processes, and one entry in the book."""
        real = functools.cache(os.path.realpath)  # they mostly lie in a few folders
        opened = [self._open(task, real) for task in tasks]
        cases = [one for one in opened if isinstance(one, _Case)]
        together = [one for one in cases if one.task.beside is None and not is_of_a_set(one.task.name)]
        if len(together) > 1:
            files = [(one.task.path, one.task.name) for one in together]
            for one, found in zip(together, self._loading.judge_many(files, tick=None), strict=True):
                one.found = found
                if found and found.hashed and self.tick:
                    self.tick(found.hashed[0])
        proofs = [one if isinstance(one, Artifact) else self._judged(one) for one in opened]
        self._keep(cases)
        return proofs

    def _open(self, task: Task, real: Callable[[str], str]) -> Artifact | _Case:
        """What is known of the file before it is read; an Artifact if that is all."""
        path, name = task.path, task.name
        try:
            seen, problem, detail, remarks = _look(path, name, real, is_expected=task.expect is not None)
            if problem:
                return Artifact(name, kind_by_name(name)[0], problem=problem, detail=detail)
            began_ns = proofs.now_ns()
            case = _Case(task, seen, remarks, began_ns, proofs.is_settled(seen, began_ns))
            if self._book is None:
                return case
            case.key = _key(seen, path, name, task.beside)
            known = self._book.known(case.key) if case.is_settled and not self._fresh else None
            if not known:
                return case
            if proofs.identity(os.stat(path)) != proofs.identity(seen):
                return _changed(name, str(known["kind"]), known["bytes"], known["sha256"])
        except OSError as error:
            return _unreadable(name, error)
        if self.tick:
            self.tick(seen.st_size)
        found = Judgement(
            known["kind"],
            known["loader"],
            tuple(known["proved"]),
            facts=known["facts"],
            remarks=tuple(known["remarks"]),
        )
        return _proof(case, found, (known["bytes"], known["sha256"]), str(known["at"]))

    def _judged(self, case: _Case) -> Artifact:
        """Read and loaded, unless it has been. Sets what the book is to keep of it."""
        task, found = case.task, case.found
        try:
            if found and found.hashed:
                hashed = found.hashed
            else:
                hashed, found = self._read(task.path, task.name, case.seen, task.beside)
            if proofs.identity(os.stat(task.path)) != proofs.identity(case.seen):
                return _changed(task.name, found.kind, *hashed)
        except OSError as error:
            return _unreadable(task.name, error)
        if case.key and _is_final(found) and case.is_settled:
            case.held = {"kind": found.kind, "loader": found.loader, "proved": found.proved, "facts": dict(found.facts)}
            case.held |= {"bytes": hashed[0], "sha256": hashed[1], "remarks": found.remarks}
            case.held["at"] = units.stamp(case.began_ns / 1e9)
        return _proof(case, found, hashed)

    def _keep(self, cases: Sequence[_Case]) -> None:
        rows = [(case.key, case.held, case.began_ns / 1e9) for case in cases if case.held is not None]
        if self._book and rows:
            self._book.keep(rows)

    def _read(
        self, path: str, name: str, seen: os.stat_result, beside: Mapping[str, str] | None
    ) -> tuple[tuple[int, str], Judgement]:
        """((bytes, sha256), the loading result), from one reading if the loader finished. Raises: OSError."""
        told_bytes = 0

        def tick(count: int) -> None:
            nonlocal told_bytes
            told_bytes += count
            if self.tick:
                self.tick(count)

        found = self._loading.judge(path, name, seen.st_size, beside, tick=tick)
        hashed = found.hashed or regular.hashed(path, seen.st_size)
        tick(max(hashed[0] - told_bytes, 0))
        return hashed, found


def open_book(path: str) -> proofs.Proofs:
    """The verifications recorded in the file `path`, for the current loaders and libraries."""
    return proofs.Proofs(path, made_by())


@functools.cache
def made_by() -> str:
    """A digest of what verifies here: our own code, third-party loaders, and the libraries' versions."""
    import hashlib
    from importlib import metadata

    from sojourn.store.compiled import PACKAGE

    sums = hashlib.sha256()
    for folder in ("backends/loader", "backends/proof", "formats", "formats/torch", "wire"):
        _add_sources(sums, os.path.join(PACKAGE, folder))
    others = {entry.name: entry.value for entry in metadata.entry_points(group="sojourn.loader")}
    return names.digest([sums.hexdigest(), others, libraries()])


def libraries() -> dict[str, str]:
    """{library used for loading here: its version, "" if not installed}."""
    from importlib import metadata

    versions = {}
    for library in ("torch", "numpy", "safetensors", "pyarrow", "pillow", "pyyaml"):
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = ""
    return versions


def _add_sources(sums: Any, folder: str) -> None:
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as f:
                sums.update(f"{name}\0".encode() + f.read() + b"\0")


def _key(seen: os.stat_result, path: str, name: str, beside: Mapping[str, str] | None) -> str:
    """The file's identity, its name, and that of its neighbours if they matter."""
    last = os.path.basename(name)
    around: list[Any] = []
    if is_of_a_set(last):
        for other, where in sorted((Siblings(path) if beside is None else beside).items()):
            around.append([printable(other), *(() if other.endswith("/") else proofs.identity(os.stat(where)))])
    return names.digest([proofs.identity(seen), printable(last), around])


def _is_final(found: Judgement) -> bool:
    """Verified as far as it ever will be: a file that is bad, or lacks a library, is read again."""
    return not found.problem and (found.kind == UNKNOWN or state_of(found.proved) != "bytes-only")


def prove(path: str, name: str, expect: tuple[int, str] | None = None) -> Artifact:
    """`Prover.prove` of a single file. Several are much faster with one Prover."""
    with Prover(1) as prover:
        return prover.prove(path, name, expect)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _look(
    path: str, name: str, real: Callable[[str], str], *, is_expected: bool
) -> tuple[os.stat_result, str, str, tuple[str, ...]]:
    """(stat, problem, detail, remarks): whether a regular file is where its name says. `real`: os.path.realpath, which
    may remember folders. Raises: OSError.
    """
    seen = os.lstat(path)
    root = path[: -len(name)] if path.endswith("/" + name) else os.path.dirname(path)
    root = real(root or ".")
    folder, last = os.path.split(path)
    is_plain = stat.S_ISREG(seen.st_mode) and last not in ("", ".", "..")
    to = os.path.join(real(folder or "."), last) if is_plain else os.path.realpath(path)
    if os.path.commonpath((root, to)) != root:
        return seen, "escapes-root", f"it is a link, or lies behind one, that leads to {printable(to)}", ()
    if stat.S_ISLNK(seen.st_mode):
        if is_expected:
            return seen, "escapes-root", f"a link (to {printable(to)}) where a file must be", ()
        seen = os.stat(path)
        return seen, *_kind_of(seen), (f"a link to {printable(os.path.relpath(to, root))}",)
    return seen, *_kind_of(seen), ()


def _kind_of(seen: os.stat_result) -> tuple[str, str]:
    what = regular.what_else(seen)
    return ("escapes-root", f"not a file but {what}") if what else ("", "")


def _changed(name: str, kind: str, size_bytes: int, sha256: str) -> Artifact:
    return Artifact(name, kind, size_bytes, sha256, problem="mismatch", detail="it changed while it was read")


def _proof(case: _Case, found: Judgement, hashed: tuple[int, str], at: str = "") -> Artifact:
    task = case.task
    problem, detail = _compare(found, *hashed, task.expect)
    proved = (("bytes",) if task.expect == hashed else ()) + (found.proved if not problem else ())
    remarks = case.remarks + found.remarks
    return Artifact(task.name, found.kind, *hashed, proved, problem, detail, remarks, found.facts, found.loader, at)


def _compare(found: Judgement, size_bytes: int, sha256: str, expect: tuple[int, str] | None) -> tuple[str, str]:
    """(problem, detail) of the actual against the expected; with the loader's problem if it has one too."""
    problem, detail = found.problem, found.detail
    if problem and not sha256:
        return problem, detail  # its reading was ended: its bytes are unknown
    if expect is None or (size_bytes, sha256) == expect:
        return problem, detail
    more = f"; loading it says {problem}: {detail}" if problem else ""
    if size_bytes < expect[0]:
        return "truncated" if size_bytes else "empty", f"{size_bytes} of {expect[0]} bytes{more}"
    if size_bytes > expect[0]:
        return "mismatch", f"{size_bytes} bytes where {expect[0]} are expected{more}"
    return "mismatch", f"its sha256 is not the one expected{more}"


def _unreadable(name: str, error: OSError) -> Artifact:
    kind, loader = kind_by_name(name)
    if isinstance(error, FileNotFoundError):
        return Artifact(name, kind, problem="missing", detail="no such file", loader=loader)
    if error.errno == errno.ELOOP:
        return Artifact(name, kind, problem="missing", detail="a circular link", loader=loader)
    # A missing right to read says nothing about the file; anything else (EIO, ESTALE) comes from a damaged disk.
    problem = "unsupported" if isinstance(error, PermissionError) else "corrupt"
    return Artifact(name, kind, problem=problem, detail=f"it cannot be read: {error.strerror or error}", loader=loader)


__all__ = ["Prover", "Task", "cores", "open_book", "prove"]
