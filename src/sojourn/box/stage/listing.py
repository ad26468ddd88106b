"""What lies below a folder: one row per file, folder and link, in the order of their paths. Reads no content."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

    class Row(NamedTuple):
        """One entry. `kind`: "f", "d" or "l"; `target`: of a link; `need_bytes`: on disk, holes left out."""

        path: str
        kind: str
        size: int
        mtime_ns: int
        ctime_ns: int
        mode: int
        target: str
        inode: int
        need_bytes: int

else:
    from collections import namedtuple

    Row = namedtuple("Row", "path kind size mtime_ns ctime_ns mode target inode need_bytes")

BLOCK_BYTES = 4096
_SPARSE_BYTES = 1 << 20  # a smaller file is taken to have no holes: asking would cost an open


class Listing:
    """`rows`: path -> Row, "" for the root itself. `left_out`, `problems`: (path, why); a problem means that the tree
    cannot be copied as it is.
    """

    def __init__(self) -> None:
        self.rows: Dict[str, Row] = {}
        self.left_out: List[Tuple[str, str]] = []
        self.problems: List[Tuple[str, str]] = []


def walk(root: str, tick: Callable[[str], None] = lambda path: None, *, strict: bool = True) -> Listing:
    """Everything below `root`, which may be a file. `tick` is called with each folder.

    `strict`: a link that leads out of `root` is a problem. What cannot be read is one in any case.
    Raises: OSError if `root` itself cannot be looked at.
    """
    found = Listing()
    _take(found, root, "", os.stat(root), strict)
    waiting = [""] if "" in found.rows and found.rows[""].kind == "d" else []
    while waiting:
        folder = waiting.pop()
        tick(folder)
        try:
            with os.scandir(at(root, folder)) as entries:
                seen = sorted(_statuses(entries))
        except OSError as error:
            found.problems.append((folder or ".", error.strerror or str(error)))
            continue
        for name, status in seen:
            path = folder + "/" + name if folder else name
            _take(found, root, path, status, strict)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
    found.rows = {path: found.rows[path] for path in sorted(found.rows)}
    return found


def _statuses(entries: Iterable[os.DirEntry[str]]) -> Iterator[Tuple[str, os.stat_result]]:
    """(name, status) of each; one that was just removed is no longer there. Raises: OSError."""
    for entry in entries:
        try:
            yield entry.name, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue


def at(root: str, path: str) -> str:
    """The entry `path` below `root`; "" is the root."""
    return os.path.join(root, path) if path else root


def same_source(one: Row, other: Row) -> bool:
    """Whether nothing speaks for a change between two looks at the source.

    No inode: file systems over a network and mounted buckets number their files anew at each mount.
    """
    if one.kind != other.kind:
        return False
    if one.kind == "l":
        return one.target == other.target
    if one.kind == "d":
        return one.mode == other.mode
    return (one.size, one.mtime_ns, one.ctime_ns, one.mode) == (other.size, other.mtime_ns, other.ctime_ns, other.mode)


def _take(found: Listing, root: str, path: str, status: os.stat_result, strict: bool) -> None:
    kind = "f" if stat.S_ISREG(status.st_mode) else "d" if stat.S_ISDIR(status.st_mode) else ""
    target = ""
    need = BLOCK_BYTES
    if kind == "f":
        need = _need_bytes(at(root, path), status)
    elif stat.S_ISLNK(status.st_mode):
        kind = "l"
        try:
            target = os.readlink(at(root, path))
        except OSError as error:
            found.problems.append((path, error.strerror or str(error)))
            return
        if strict and leaves(path, target):
            found.problems.append((path, "a link that leads out of the source"))
            return
    elif not kind:
        found.left_out.append((path, "a socket, pipe or device has no content"))
        return
    mode = stat.S_IMODE(status.st_mode) & 0o777
    size = status.st_size if kind == "f" else 0
    found.rows[path] = Row(path, kind, size, status.st_mtime_ns, status.st_ctime_ns, mode, target, status.st_ino, need)


def leaves(path: str, target: str) -> bool:
    """Whether a link at `path` leads out of its tree, or is absolute, and so would lead back to the slow storage."""
    where = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return os.path.isabs(target) or where == ".." or where.startswith("../")


def _need_bytes(full: str, status: os.stat_result) -> int:
    """Bytes on disk of a copy, in whole blocks. A compressing file system does not count as one with holes."""
    size = status.st_size
    if size >= _SPARSE_BYTES and size > status.st_blocks * 512 and hasattr(os, "SEEK_DATA"):
        size = _data_bytes(full, size)
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _data_bytes(full: str, size: int) -> int:
    try:
        fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return size
    total = end = 0
    try:
        while end < size:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, begin, os.SEEK_HOLE)
            total += end - begin
    except OSError as error:
        return total if error.errno == errno.ENXIO else size  # only a hole is left; it cannot tell holes
    finally:
        os.close(fd)
    return total
