"""One file to the fast disk, hashed on the way; and read back from there."""

from __future__ import annotations

import errno
import hashlib
import os

from sojourn.box.stage.listing import BLOCK_BYTES, Row, at
from sojourn.box.stage.records import Copied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PIECE_BYTES = 1 << 20
_ZEROS = bytes(PIECE_BYTES)
_SMALL_BYTES = 64 << 10


class SourceTrouble(Exception):
    """A file of the source cannot be read, or is not what it was. `is_changed`: it may be read again."""

    def __init__(self, why: str, is_changed: bool = False) -> None:
        super().__init__(why)
        self.is_changed = is_changed


def copy(source: str, goal: str, row: Row, done: Callable[[int], None], *, from_there: bool = False) -> Copied:
    """Copy the file of `row` from `source` to below `goal`; holes stay holes. Not synced.

    `from_there`: keep what an interrupted copy left, and go on behind it. `done` gets each number of bytes.
    Raises: SourceTrouble; OSError of the goal, where the file then is incomplete.
    """
    try:
        fd = os.open(at(source, row.path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _trouble(error) from error
    try:
        _check(fd, row)
        full = at(goal, row.path)
        out = _open_goal(full, from_there)
        try:
            sha256 = _pour(fd, out, row, done, _have(out, row.size) if from_there else 0)
            if row.need_bytes < row.size:
                os.ftruncate(out, row.size)  # it may end in a hole
            _check(fd, row)
            os.fchmod(out, row.mode | 0o400)
            os.utime(out, ns=(row.mtime_ns, row.mtime_ns))
            return copied(row, sha256, os.fstat(out))
        finally:
            os.close(out)
    finally:
        os.close(fd)


def copied(row: Row, sha256: str, status: os.stat_result) -> Copied:
    """The record of a copy with this status."""
    return Copied(row, sha256, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def is_as_left(full: str, one: Copied) -> bool:
    """Whether nothing touched a copy since it was recorded. Raises: nothing."""
    try:
        status = os.lstat(full)
    except OSError:
        return False
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (
        one.inode,
        one.row.size,
        one.mtime_ns,
        one.ctime_ns,
    )


def sha256_from_disk(full: str, size: int, done: Callable[[int], None]) -> str:
    """The hash of a copy, from the disk and not from memory, where the system can; "" if it has another size.

    Raises: OSError.
    """
    fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if os.fstat(fd).st_size != size:
            return ""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = hashlib.sha256()
        while True:
            piece = os.read(fd, PIECE_BYTES if size > _SMALL_BYTES else size + 1)
            if not piece:
                return found.hexdigest()
            found.update(piece)
            done(len(piece))
    finally:
        os.close(fd)


def _open_goal(full: str, from_there: bool) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    if from_there:
        try:
            return os.open(full, flags, 0o600)
        except PermissionError:  # killed when it had its final, read-only mode: begun anew
            os.unlink(full)
    try:
        return os.open(full, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        os.unlink(full)
        return os.open(full, flags | os.O_EXCL, 0o600)


def _have(out: int, size: int) -> int:
    """How many bytes an interrupted copy left; one that is too long is begun anew."""
    have = os.fstat(out).st_size
    if have <= size:
        return have
    os.ftruncate(out, 0)
    return 0


def _pour(fd: int, out: int, row: Row, done: Callable[[int], None], have: int) -> str:
    """Copy what is behind the first `have` bytes, which the goal has; the hash of all."""
    found = hashlib.sha256()
    size, has_holes = row.size, row.need_bytes < row.size
    begin = 0
    while begin < have:
        piece = os.read(out, min(PIECE_BYTES, have - begin))
        if not piece:
            raise OSError(errno.EIO, "an unfinished copy became shorter")
        found.update(piece)
        done(len(piece))
        begin += len(piece)
    if begin:
        _lseek(fd, begin)
    while begin < size:
        piece = _read(fd, min(PIECE_BYTES, size - begin))
        if not piece:
            raise SourceTrouble("it became shorter while it was read", True)
        found.update(piece)
        if has_holes:
            for at_byte in range(0, len(piece), BLOCK_BYTES):
                _write(out, piece[at_byte : at_byte + BLOCK_BYTES])
        else:
            _write(out, piece)
        begin += len(piece)
        done(len(piece))
    return found.hexdigest()


def _write(out: int, piece: bytes) -> None:
    """Write it, or leave a hole where it is a whole block of zeros or more."""
    if len(piece) >= BLOCK_BYTES and piece == _ZEROS[: len(piece)]:
        os.lseek(out, len(piece), os.SEEK_CUR)
        return
    view = memoryview(piece)
    while view:
        view = view[os.write(out, view) :]


def _read(fd: int, count: int) -> bytes:
    try:
        return os.read(fd, count)
    except OSError as error:
        raise _trouble(error) from error


def _lseek(fd: int, begin: int) -> None:
    try:
        os.lseek(fd, begin, os.SEEK_SET)
    except OSError as error:
        raise _trouble(error) from error


def _check(fd: int, row: Row) -> None:
    """Raises: SourceTrouble if the open file is not what the listing had."""
    status = os.fstat(fd)
    if (status.st_size, status.st_mtime_ns) != (row.size, row.mtime_ns):
        raise SourceTrouble("it changed while it was read", True)


def _trouble(error: OSError) -> SourceTrouble:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE):
        return SourceTrouble("it changed while it was read", True)
    return SourceTrouble(error.strerror or str(error))
