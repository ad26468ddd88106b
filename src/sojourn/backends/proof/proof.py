"""Proving one artifact: its bytes are those expected, and it loads."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from sojourn.backends.proof import regular
from sojourn.backends.proof.judge import Judgement, Siblings, is_of_a_set, kind_by_name
from sojourn.backends.proof.loading import Loading
from sojourn.core.artifact import UNKNOWN, Artifact, printable
from sojourn.core.values import state_of
from sojourn.store import proofs
from sojourn.wire import names, units


class Prover:
    """Proves many artifacts with the same few processes. A context manager; for twice as many threads as `processes`.

    `book`: what was proven before; a file that is unchanged since is not read again, unless `fresh`. `tick` is told how
    many bytes were read, now and then.
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
        `beside`: where the files lie that belong into one folder with it, by their last names; None: beside `path`.

        Whatever is wrong with the file is in the answer; nothing is raised for it, and nothing in it is run. One that
        changes while it is read is a `mismatch`.
        """
        try:
            before, problem, detail, remarks = _look(path, name, is_expected=expect is not None)
            if problem:
                return Artifact(name, kind_by_name(name)[0], problem=problem, detail=detail)
            began_ns = proofs.now_ns()
            key = _key(before, path, name, beside) if self._book else ""
            is_asked = self._book is not None and not self._fresh and proofs.is_settled(before, began_ns)
            known = self._book.known(key) if self._book and is_asked else None
            if known:
                found = Judgement(known["kind"], known["loader"], tuple(known["proved"]), facts=known["facts"])
                hashed, at, found_remarks = (known["bytes"], known["sha256"]), str(known["at"]), tuple(known["remarks"])
                if self.tick:
                    self.tick(before.st_size)
            else:
                hashed, found = self._read(path, name, before, beside)
                at, found_remarks = "", found.remarks
            if proofs.identity(os.stat(path)) != proofs.identity(before):
                return Artifact(name, found.kind, *hashed, problem="mismatch", detail="it changed while it was read")
        except OSError as error:
            return _unreadable(name, error)
        if self._book and not known and _is_final(found) and proofs.is_settled(before, began_ns):
            held = {"kind": found.kind, "loader": found.loader, "proved": found.proved, "facts": dict(found.facts)}
            held |= {"bytes": hashed[0], "sha256": hashed[1], "remarks": found.remarks}
            self._book.keep(key, {**held, "at": units.stamp(began_ns / 1e9)}, began_ns / 1e9)
        problem, detail = _compare(found, *hashed, expect)
        proved = (("bytes",) if expect == hashed else ()) + (found.proved if not problem else ())
        remarks += found_remarks
        return Artifact(name, found.kind, *hashed, proved, problem, detail, remarks, found.facts, found.loader, at)

    def _read(
        self, path: str, name: str, seen: os.stat_result, beside: Mapping[str, str] | None
    ) -> tuple[tuple[int, str], Judgement]:
        """((bytes, sha256), what loading it said), of one reading where the loader came to its end. Raises: OSError."""
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
    """The record of proofs in the file `path`, for the loaders and libraries as they are now."""
    return proofs.Proofs(path, made_by())


@functools.cache
def made_by() -> str:
    """A digest of what proves here: our own code of it, other people's loaders, and the versions of the libraries."""
    import hashlib
    from importlib import metadata

    from sojourn.store.compiled import PACKAGE

    sums = hashlib.sha256()
    for folder in ("backends/loader", "backends/proof", "formats", "formats/torch", "wire"):
        _add_sources(sums, os.path.join(PACKAGE, folder))
    others = {entry.name: entry.value for entry in metadata.entry_points(group="sojourn.loader")}
    return names.digest([sums.hexdigest(), others, libraries()])


def libraries() -> dict[str, str]:
    """{library that loads something here: its version, "" where it is not installed}."""
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
    """The file as it is, its name, and where neighbours judge it, these as they are."""
    last = os.path.basename(name)
    around: list[Any] = []
    if is_of_a_set(last):
        for other, where in sorted((Siblings(path) if beside is None else beside).items()):
            around.append([printable(other), *(() if other.endswith("/") else proofs.identity(os.stat(where)))])
    return names.digest([proofs.identity(seen), printable(last), around])


def _is_final(found: Judgement) -> bool:
    """It proved as far as it ever will: a file that is bad, or lacks a library, is read again."""
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


def _look(path: str, name: str, *, is_expected: bool) -> tuple[os.stat_result, str, str, tuple[str, ...]]:
    """(stat, problem, detail, remarks): whether it is a regular file that lies where its name says. Raises: OSError."""
    seen = os.lstat(path)
    root = path[: -len(name)] if path.endswith("/" + name) else os.path.dirname(path)
    root = os.path.realpath(root or ".")
    real = os.path.realpath(path)
    if os.path.commonpath((root, real)) != root:
        return seen, "escapes-root", f"it is a link, or lies behind one, that leads to {printable(real)}", ()
    if stat.S_ISLNK(seen.st_mode):
        if is_expected:
            return seen, "escapes-root", f"a link (to {printable(real)}) where a file must be", ()
        seen = os.stat(path)
        return seen, *_kind_of(seen), (f"a link to {printable(os.path.relpath(real, root))}",)
    return seen, *_kind_of(seen), ()


def _kind_of(seen: os.stat_result) -> tuple[str, str]:
    what = regular.what_else(seen)
    return ("escapes-root", f"not a file but {what}") if what else ("", "")


def _compare(found: Judgement, size_bytes: int, sha256: str, expect: tuple[int, str] | None) -> tuple[str, str]:
    """(problem, detail) of what was found against what was expected; the loader's word is added where both object."""
    problem, detail = found.problem, found.detail
    if problem and not sha256:
        return problem, detail  # its reading was ended: nothing is known of its bytes
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
        return Artifact(name, kind, problem="missing", detail="a link that leads round in a circle", loader=loader)
    # No right to read it says nothing about the file; anything else (EIO, ESTALE) is what a damaged disk answers.
    problem = "unsupported" if isinstance(error, PermissionError) else "corrupt"
    return Artifact(name, kind, problem=problem, detail=f"it cannot be read: {error.strerror or error}", loader=loader)


__all__ = ["Prover", "cores", "open_book", "prove"]
