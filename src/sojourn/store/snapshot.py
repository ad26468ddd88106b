"""The code as it is now: its files, their hashes, one digest; and the tar with exactly these bytes."""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from sojourn.store import scripts
from sojourn.store.hashes import Hashes
from sojourn.store.ignore import IGNORE_FILES, Rules, rules_for
from sojourn.wire.errors import Misuse
from sojourn.wire.manifest import is_safe, roster_digest

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow


class BadTree(Misuse):
    """{path} cannot be pushed: {what}."""

    code = "bad-tree"
    next_step = "add it to .sojournignore, or fix it"


class TreeChanged(Misuse):
    """{path} changed while it was read. Nothing was launched."""

    code = "tree-changed"
    retry = True


@dataclass(frozen=True)
class Snapshot:
    """A tree by content. `root`: the folder, or the folder of the single file (`is_file`).

    rows: {"path", "bytes", "sha256", "role"} sorted by path; role "f" a file, "x" an executable one, "l" a symlink,
    with the bytes and sha256 of its target's text. Empty folders are not kept. `digest` identifies the rows.
    """

    root: str
    rows: tuple[FileRow, ...]
    digest: str
    bytes: int
    is_file: bool = False
    skipped: tuple[str, ...] = ()  # sockets, pipes, devices: no content to carry
    mended: tuple[str, ...] = ()  # scripts whose Windows line ends become Unix ones in the rows and the pack
    hollow: tuple[str, ...] = ()  # git submodules that are not checked out here

    @property
    def remarks(self) -> list[str]:
        """What a person should know before only this reaches the box."""
        said = [
            (self.mended, "{} pushed with Unix line endings; your file is unchanged"),
            (self.skipped, "{} not pushed: a socket, pipe or device has no content"),
            (self.hollow, "{} empty: a submodule that is not checked out; git submodule update --init"),
        ]
        return [text.format(_named(paths)) for paths, text in said if paths]


def take_snapshot(path: str, *, everything: bool = False) -> Snapshot:
    """The tree at `path` (a folder, or one file) as it is now. Reads every file not read before.

    Leaves out what .gitignore and .sojournignore exclude, unless `everything`.
    Raises: BadTree (a link that leaves the tree, a name that is not UTF-8, an unreadable file), TreeChanged,
    BadIgnoreFile.
    """
    root = os.path.realpath(path)
    is_file = os.path.isfile(root)
    taker = _Taker(os.path.dirname(root) if is_file else root)
    if is_file:
        taker.entry(os.path.basename(root))
    else:
        taker.mends_scripts = not everything  # mounts are data, and sent unchanged
        taker.folder(Rules(()) if everything else rules_for(root), everything)
    taker.hashes.keep()
    taker.check_links()
    rows = tuple(sorted(taker.rows, key=lambda row: str(row["path"])))
    total = sum(row["bytes"] for row in rows)
    found = (taker.skipped, taker.mended, taker.hollow)
    return Snapshot(taker.root, rows, roster_digest(rows), total, is_file, *(tuple(sorted(paths)) for paths in found))


def without(tree: Snapshot, paths: Iterable[str]) -> Snapshot:
    """The tree without these absolute paths; paths outside it are ignored."""
    out = {os.path.relpath(os.path.realpath(path), tree.root) for path in paths}
    rows = tuple(row for row in tree.rows if row["path"] not in out)
    return replace(tree, rows=rows, digest=roster_digest(rows), bytes=sum(row["bytes"] for row in rows))


def pack(tree: Snapshot, tar_path: str) -> None:
    """Write the tar of a snapshot: members are the rows' paths, in order; same snapshot, same bytes.

    Raises: TreeChanged if a file no longer has the bytes of its row, BadTree; OSError for `tar_path`. A partial tar is
    removed.
    """
    import tarfile

    mended = set(tree.mended)
    try:
        with open(tar_path, "wb") as out, tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for row in tree.rows:
                member = tarfile.TarInfo(row["path"])
                full = os.path.join(tree.root, row["path"])
                if row["role"] == "l":
                    member.type, member.mode, member.linkname = tarfile.SYMTYPE, 0o777, _target(tree.root, row["path"])
                    _same(row, member.linkname.encode("utf-8"))
                    tar.addfile(member)
                    continue
                member.size, member.mode = row["bytes"], 0o755 if row["role"] == "x" else 0o644
                with _mended(full, row) if row["path"] in mended else _opened(full, row["path"]) as file:
                    _add(tar, member, file, row)
    except BaseException:
        if os.path.exists(tar_path):
            os.unlink(tar_path)
        raise


def read(tree: Snapshot, row: FileRow, piece_bytes: int) -> Iterator[bytes]:
    """The content of a file's row, in pieces. Raises: TreeChanged if it no longer matches the row (at the latest in
    place of the last piece), BadTree.
    """
    full = os.path.join(tree.root, row["path"])
    digest, left = hashlib.sha256(), row["bytes"]
    with _mended(full, row) if row["path"] in tree.mended else _opened(full, row["path"]) as file:
        while left:
            try:
                data = file.read(min(piece_bytes, left))
            except OSError as error:
                raise BadTree(path=_say(row["path"]), what=error.strerror) from error
            digest.update(data)
            left -= len(data)
            if not data or (not left and digest.hexdigest() != row["sha256"]):
                raise TreeChanged(path=_say(row["path"]))
            yield data


def target(tree: Snapshot, row: FileRow) -> str:
    """The target of a symlink's row. Raises: TreeChanged, BadTree."""
    try:
        text = _target(tree.root, row["path"])
    except OSError as error:
        raise TreeChanged(path=_say(row["path"])) from error
    _same(row, text.encode("utf-8"))
    return text


class _Taker:
    def __init__(self, root: str) -> None:
        self.root = root
        self.rows: list[FileRow] = []
        self.skipped: list[str] = []
        self.mended: list[str] = []
        self.hollow: list[str] = []
        self.mends_scripts = False
        self.hashes = Hashes(root)

    def folder(self, rules: Rules, everything: bool) -> None:
        """Rows for everything below the root. Not recursive: folders may be nested deeper than Python's stack."""
        waiting = [("", rules)]
        while waiting:
            relative, rules = waiting.pop()
            entries = self._listed(relative)
            names = {entry.name for entry in entries}
            if relative and not everything:
                # A virtual environment contains paths of this machine; the box makes its own (`setup`).
                if "pyvenv.cfg" in names:
                    continue
                if ".git" in names:
                    rules = rules.of_another_repository()
                if names & IGNORE_FILES:
                    rules = rules.below(os.path.join(self.root, relative))
            if ".gitmodules" in names and not everything:
                self._look_into_submodules(relative)
            for entry in entries:
                inside = f"{relative}/{entry.name}" if relative else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not everything and rules.skips(entry.path, is_folder):
                    continue
                if is_folder:
                    waiting.append((inside, rules))
                else:
                    self.entry(inside, entry)

    def _look_into_submodules(self, relative: str) -> None:
        with open(os.path.join(self.root, relative, ".gitmodules"), encoding="utf-8", errors="replace") as file:
            named = re.findall(r"(?m)^\s*path\s*=\s*(.+?)\s*$", file.read())
        for path in named:
            inside = posixpath.normpath(posixpath.join(relative, path))
            if is_safe(inside) and _is_empty_folder(os.path.join(self.root, inside)):
                self.hollow.append(inside)

    def _listed(self, relative: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self.root, relative)) as entries:
                return list(entries)
        except OSError as error:
            raise BadTree(path=_say(relative or self.root), what=error.strerror) from error

    def entry(self, path: str, listed: os.DirEntry[str] | None = None) -> None:
        """One row for the file or link at `path`, as its folder lists it."""
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            raise BadTree(path=_say(path), what="its name is not UTF-8") from None
        full = listed.path if listed else os.path.join(self.root, path)
        try:
            seen = listed.stat(follow_symlinks=False) if listed else os.lstat(full)
            if stat.S_ISLNK(seen.st_mode):
                text = _target(self.root, path).encode("utf-8")
                self._add(path, len(text), hashlib.sha256(text).hexdigest(), "l")
            elif stat.S_ISREG(seen.st_mode):
                role = "x" if seen.st_mode & stat.S_IXUSR else "f"
                data = scripts.mended(full, seen.st_size, role == "x") if self.mends_scripts else None
                if data is None:
                    self._add(path, *self.hashes.of(full, path, seen), role)
                else:
                    self.mended.append(path)
                    self._add(path, len(data), hashlib.sha256(data).hexdigest(), role)
            else:
                self.skipped.append(path)
        except FileNotFoundError as error:
            raise TreeChanged(path=_say(path)) from error
        except OSError as error:
            raise BadTree(path=_say(path), what=error.strerror) from error

    def _add(self, path: str, size: int, sha256: str, role: str) -> None:
        self.rows.append({"path": path, "bytes": size, "sha256": sha256, "role": role})

    def check_links(self) -> None:
        """A link to something here that is not pushed would dangle over there. Raises: BadTree."""
        pushed = {"."}
        for row in self.rows:
            path = str(row["path"])
            while path and path not in pushed:
                pushed.add(path)
                path = path.rpartition("/")[0]
        for path in (str(row["path"]) for row in self.rows if row["role"] == "l"):
            full = os.path.join(self.root, path)
            to = os.path.relpath(os.path.realpath(full), self.root)
            if os.path.exists(full) and to not in pushed and not _is_empty_folder(full):
                raise BadTree(path=_say(path), what=f"it links to {_say(to)}, which is not pushed")


def _is_empty_folder(path: str) -> bool:
    """Raises: BadTree for a folder that cannot be listed: it is not empty."""
    try:
        return os.path.isdir(path) and not os.listdir(path)
    except OSError as error:
        raise BadTree(path=_say(path), what=error.strerror) from error


def _target(root: str, path: str) -> str:
    """The target text of the symlink at `path`, made relative if absolute. Raises: BadTree, OSError."""
    full = os.path.join(root, path)
    text = os.readlink(full)
    folder = os.path.dirname(full)
    target = os.path.normpath(os.path.join(folder, text))
    for place in (target, os.path.realpath(full)):
        if place != root and not place.startswith(root.rstrip(os.sep) + os.sep):
            what = f"it links to {_say(text)}, outside of {_say(root)}; mount that with file_mounts"
            raise BadTree(path=_say(path), what=what)
    if os.path.isabs(text):
        text = os.path.relpath(target, folder)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadTree(path=_say(path), what="its target's name is not UTF-8") from None
    return text


class _Hashing:
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data


def _add(tar: Any, member: Any, file: IO[bytes], row: FileRow) -> None:
    import tarfile

    hashing = _Hashing(file)
    try:
        tar.addfile(member, hashing)
    except (tarfile.ReadError, OSError) as error:
        # The library reports a file that got shorter as an unexpected end of data.
        if "unexpected end of data" in str(error):
            raise TreeChanged(path=_say(row["path"])) from error
        raise
    if hashing.sha256.hexdigest() != row["sha256"]:
        raise TreeChanged(path=_say(row["path"]))


def _same(row: FileRow, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise TreeChanged(path=_say(row["path"]))


def _opened(full: str, path: str) -> IO[bytes]:
    try:
        return open(full, "rb")
    except FileNotFoundError as error:
        raise TreeChanged(path=_say(path)) from error
    except OSError as error:
        raise BadTree(path=_say(path), what=error.strerror) from error


def _mended(full: str, row: FileRow) -> IO[bytes]:
    """The script as pushed. If it has changed by now, so has its hash."""
    return io.BytesIO(scripts.mended(full, os.path.getsize(full), row["role"] == "x") or b"")


def _named(paths: Sequence[str]) -> str:
    """`a`, `a, b and c are`, `a, b, c and 4 others are`: with the verb."""
    shown = [_say(path) for path in paths[:3]]
    if len(paths) > 3:
        shown.append(f"{len(paths) - 3} others")
    if len(shown) == 1:
        return f"{shown[0]} is"
    return f"{', '.join(shown[:-1])} and {shown[-1]} are"


def _say(path: str) -> str:
    """A path as one line of plain text, whatever its name contains."""
    is_plain = path.isprintable() and not any("\ud800" <= letter <= "\udfff" for letter in path)
    return path if is_plain else ascii(path)
