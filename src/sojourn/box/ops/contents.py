"""A snapshot being built from contents: what is already here, what other snapshots have, and what arrives."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat

from sojourn.box.call import Refused
from sojourn.box.run import copying, tree
from sojourn.wire import atomic, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

    Row = Dict[str, Any]

_CHUNK = 4 << 20
_ROSTERS = 12  # of other snapshots searched, newest first


def numbered(rows: List[Row]) -> List[Tuple[str, int]]:
    """(sha256, bytes) of the different contents, in row order; without symlinks and empty files."""
    seen: Dict[str, int] = {}
    for row in rows:
        if row["role"] != "l" and row["bytes"]:
            seen.setdefault(row["sha256"], row["bytes"])
    return list(seen.items())


def above(path: str) -> Iterator[str]:
    """The folders that contain a path."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def is_link(row: Row) -> bool:
    """Whether the row's target matches its digest, and stays inside the tree."""
    target = row.get("to")
    if not isinstance(target, str) or hashlib.sha256(os.fsencode(target)).hexdigest() != row["sha256"]:
        return False
    where = os.path.normpath(os.path.join(os.path.dirname(row["path"]), target))
    return not os.path.isabs(target) and where != ".." and not where.startswith("../")


class Half:
    """A growing tree in `folder`. Every file in folder/tree under a row's name is whole, hashed and frozen: proved by
    time stamp and mode if it `trusts` them, else hashed again.
    """

    def __init__(self, folder: str, rows: List[Row], *, trusts: bool) -> None:
        self._parts, self._tree, self._trusts = os.path.join(folder, "parts"), os.path.join(folder, "tree"), trusts
        self._rows = rows
        self._numbered = numbered(rows)
        self._by_sha: Dict[str, List[Row]] = {}
        for row in rows:
            self._by_sha.setdefault("" if row["role"] == "l" else row["sha256"], []).append(row)
        self._wanting: Dict[str, None] = {}
        self._made: Set[str] = set()
        self._open: Optional[_Part] = None
        self._writer = os.urandom(8).hex()

    def look(self) -> None:
        """Find what already exists; make folders, symlinks and empty files."""
        is_new = not os.path.lexists(self._tree)
        os.makedirs(self._tree, exist_ok=True)
        self._wanting = {}
        for row in self._rows:
            if is_new and row["bytes"] and row["role"] != "l":
                self._wanting[row["sha256"]] = None
                continue
            goal = self._at(row)
            if row["role"] == "l":
                self._folder_of(goal)
                if not os.path.islink(goal):
                    os.symlink(row["to"], goal)
            elif not row["bytes"]:
                if not self._is_frozen(goal, row):
                    self._put(b"", row)
            elif not self._is_frozen(goal, row):
                self._wanting[row["sha256"]] = None
        if is_new:
            return
        for sha256 in [one for one, _ in self._numbered if one in self._wanting]:
            there = [row for row in self._by_sha[sha256] if self._is_frozen(self._at(row), row)]
            if there:  # under another name in this tree
                self._spread(self._at(there[0]), sha256)

    def expect(self, numbers: Iterable[int]) -> None:
        """Accept that exactly these contents are lacking, as `lacking` has just answered."""
        self._wanting = {self._numbered[number][0]: None for number in numbers}

    def link_from(self, snapshots: str) -> None:
        """Take what other snapshots have: rehashed, unless its stat is unchanged since the last time."""
        for digest in _newest(snapshots):
            if not self._wanting:
                return
            folder = os.path.join(snapshots, digest)
            try:
                roster = atomic.read_json(os.path.join(folder, "roster.json"))
                stats = tree.marks(os.path.dirname(snapshots), digest)
            except OSError:
                continue
            top = os.path.join(folder, "tree") + "/"
            for row in roster if isinstance(roster, list) else ():
                if row["sha256"] in self._wanting and row["role"] != "l" and manifest.is_safe(row["path"]):
                    source = top + row["path"]
                    if _is_still(source, row, stats.get(row["path"])):
                        self._spread(source, row["sha256"], str(row["role"]))

    def lacking(self) -> List[List[int]]:
        """[number, bytes here] of every missing content."""
        here: Dict[str, int] = {}
        for entry in os.scandir(self._parts):
            sha256 = entry.name.partition(".")[0]
            here[sha256] = max(here.get(sha256, 0), _size(entry.path))
        out = []
        for number, (sha256, size) in enumerate(self._numbered):
            if sha256 in self._wanting:
                have = here.get(sha256, 0)
                out.append([number, have if have < size else 0])
        return out

    def write(self, number: int, offset: int, data: bytes) -> None:
        """The next bytes of a content. Refused: hash-mismatch, bad-request."""
        if number >= len(self._numbered):
            raise Refused("bad-request", "there is no content %d" % number)
        sha256, size = self._numbered[number]
        if offset + len(data) > size:
            raise Refused("hash-mismatch", "content %d has more bytes than the roster says" % number)
        if sha256 not in self._wanting:
            return  # another sender delivered it
        if offset == 0 and len(data) == size:
            if hashlib.sha256(data).hexdigest() != sha256:
                raise Refused("hash-mismatch", "%s is not what the roster says" % self._by_sha[sha256][0]["path"])
            first, *_ = self._by_sha[sha256]
            self._put(data, first)
            self._spread(self._at(first), sha256, str(first["role"]))
            return
        if self._open is None or self._open.sha256 != sha256 or self._open.at != offset:
            self.close()
            self._open = _Part(self._parts, sha256, self._writer, offset)
        self._open.write(data)
        if self._open.at == size:
            part, self._open = self._open, None
            digest = part.digest()
            if digest != sha256:
                os.unlink(part.path)
                raise Refused("hash-mismatch", "%s is not what the roster says" % self._by_sha[sha256][0]["path"])
            first, *_ = self._by_sha[sha256]
            self._freeze(part.path, first)
            goal = self._at(first)
            self._folder_of(goal)
            os.rename(part.path, goal)
            self._spread(goal, sha256, str(first["role"]))

    def close(self) -> None:
        """Close the open part; its bytes stay."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def whole(self) -> Tuple[Dict[str, List[int]], List[str], List[str]]:
        """The mark of every file by its path in the tree, each checked once more; the full paths of all files and
        folders. Refused: hash-mismatch.
        """
        marks: Dict[str, List[int]] = {}
        paths, folders = [], {os.path.dirname(row["path"]) for row in self._rows}
        for row in self._rows:
            if row["role"] != "l":
                seen = self._is_frozen(self._at(row), row)
                if not seen:
                    raise Refused("hash-mismatch", "%s is not what the roster says" % row["path"])
                paths.append(self._at(row))
                marks[row["path"]] = tree.mark(seen)
        every = {"", *folders, *(one for folder in folders for one in above(folder))}
        return marks, paths, sorted(self._tree + "/" + folder for folder in every)

    def roster(self) -> List[Row]:
        """The rows as every snapshot keeps them."""
        return [{key: row[key] for key in ("path", "bytes", "sha256", "role")} for row in self._rows]

    def _at(self, row: Row) -> str:
        return "%s/%s" % (self._tree, row["path"])

    def _folder_of(self, goal: str) -> None:
        folder = os.path.dirname(goal)
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            self._made.add(folder)

    def _is_frozen(self, path: str, row: Row) -> Optional[os.stat_result]:
        """Its stat, if it is as its row says and frozen; else None."""
        try:
            seen = os.lstat(path)
        except OSError:
            return None
        is_it = seen.st_size == row["bytes"] and seen.st_mtime_ns == tree.FROZEN_NS
        if not is_it or seen.st_mode != stat.S_IFREG | _mode(row["role"]):
            return None
        if self._trusts or manifest.sha256_file(path, follow=False)[1] == row["sha256"]:
            return seen
        _unlink(path)
        return None

    def _put(self, data: bytes, row: Row) -> None:
        """Put a small file under its name, via a temporary one, so that it appears whole or not at all."""
        goal = self._at(row)
        self._folder_of(goal)
        aside = os.path.join(self._parts, self._writer)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            view = memoryview(data)
            while len(view):
                view = view[os.write(fd, view) :]
            os.fchmod(fd, _mode(row["role"]))
            os.utime(fd, ns=(tree.FROZEN_NS, tree.FROZEN_NS))
        finally:
            os.close(fd)
        os.rename(aside, goal)

    def _freeze(self, path: str, row: Row) -> None:
        os.chmod(path, _mode(row["role"]))
        os.utime(path, ns=(tree.FROZEN_NS, tree.FROZEN_NS))

    def _spread(self, source: str, sha256: str, role: str = "") -> None:
        """Give every missing name of this content a link to `source`, or a copy if its mode differs."""
        mode = _mode(role) if role else stat.S_IMODE(os.lstat(source).st_mode)
        for row in self._by_sha[sha256]:
            goal = self._at(row)
            if goal == source:
                continue
            self._folder_of(goal)
            may_link = mode == _mode(row["role"])
            if may_link and _is_linked(source, goal) or self._is_frozen(goal, row):
                continue
            aside = os.path.join(self._parts, self._writer)
            if not (may_link and _is_linked(source, aside)):  # too many links, a file system without links
                copying.copy(source, aside)
                self._freeze(aside, row)
            os.rename(aside, goal)
            _unlink(aside)  # a rename onto a link to the same file does nothing
        self._wanting.pop(sha256, None)


class _Part:
    """A content that arrives in several frames, or continues where an earlier stream was cut.

    Nobody else writes to its file: an earlier writer may still hang at the end of a dead connection.
    """

    def __init__(self, folder: str, sha256: str, writer: str, offset: int) -> None:
        """Refused: bad-request, if fewer bytes than `offset` are here."""
        self.path, self.sha256, self.at = os.path.join(folder, "%s.%s" % (sha256, writer)), sha256, offset
        self._hash = hashlib.sha256() if offset == 0 else None
        self._fd = self._adopted(folder) if offset else self._created()

    def _created(self) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _lock(fd)
        return fd

    def _adopted(self, folder: str) -> int:
        source = _largest(folder, self.sha256)
        if _size(source) < self.at:
            raise Refused("bad-request", "a part goes on at %d, and here are fewer bytes" % self.at)
        fd = os.open(source, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        if _lock(fd):
            os.rename(source, self.path)
            return fd
        own = self._created()
        try:
            at = 0
            while at < self.at:
                data = os.pread(fd, min(_CHUNK, self.at - at), at)
                at += os.pwrite(own, data, at)
                if not data:
                    raise Refused("bad-request", "a part became shorter")
        except BaseException:
            os.close(own)
            raise
        finally:
            os.close(fd)
        return own

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        if self._hash is not None:
            self._hash.update(data)
        while len(view):
            count = os.pwrite(self._fd, view, self.at)
            self.at += count
            view = view[count:]

    def digest(self) -> str:
        """Of the whole; its beginning is reread if it was here before."""
        if self._hash is None:
            os.ftruncate(self._fd, self.at)
            self.close()
            return manifest.sha256_file(self.path, follow=False)[1]
        os.ftruncate(self._fd, self.at)
        self.close()
        return self._hash.hexdigest()

    def close(self) -> None:
        os.close(self._fd)


def _is_linked(source: str, goal: str) -> bool:
    """Make a link if the path is free. Raises: FileNotFoundError if `source` is gone."""
    try:
        os.link(source, goal, follow_symlinks=False)
        return True
    except FileNotFoundError:
        raise
    except OSError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _lock(fd: int) -> bool:
    """Whether the file is ours alone to write, until closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _largest(folder: str, sha256: str) -> str:
    """The part of this content with the most bytes; a path that does not exist if there is none."""
    paths = [entry.path for entry in os.scandir(folder) if entry.name.startswith(sha256)]
    return max(paths, key=_size, default=os.path.join(folder, sha256))


def _mode(role: str) -> int:
    return 0o555 if role == "x" else 0o444


def _is_still(path: str, row: Row, known: Any) -> bool:
    """Whether another snapshot's file has these bytes: by an unchanged stat since it was hashed, or by reading it."""
    try:
        seen = os.lstat(path)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size != row["bytes"] or seen.st_mtime_ns != tree.FROZEN_NS:
            return False
        return tree.mark(seen) == known or manifest.sha256_file(path, follow=False) == (row["bytes"], row["sha256"])
    except OSError:
        return False


def _size(path: str) -> int:
    try:
        seen = os.lstat(path)
    except OSError:
        return 0
    return seen.st_size if stat.S_ISREG(seen.st_mode) else 0


def _newest(snapshots: str) -> List[str]:
    try:
        entries = [(entry.stat().st_mtime_ns, entry.name) for entry in os.scandir(snapshots) if entry.is_dir()]
    except OSError:
        return []
    return [name for _, name in sorted(entries, reverse=True)[:_ROSTERS] if len(name) == 64]
