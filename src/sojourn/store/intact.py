"""Whether a SQLite file is as our last write left it: SQLite itself does not notice every byte changed by others.

Beside the file is its seal: its identity after our last transaction. Each process writes under the seal's lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

_WAIT_S = 2.0


class Damaged(sqlite3.DatabaseError):
    """The file is not what we left. Internal: the index is then rebuilt."""


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Inside, no other sojourn process writes to the file; at the end it is sealed. "" is a database in memory.

    Raises: Damaged; sqlite3.OperationalError if another process holds it, or the seal cannot be written.
    """
    if not path:
        yield
        return
    try:
        fd = os.open(path + ".seal", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise sqlite3.OperationalError(f"no seal: {error}") from error
    try:
        _lock(fd, fcntl.LOCK_EX)
        if not _fits(fd, path):
            raise Damaged("not as it was left")
        try:
            yield
        finally:
            data = json.dumps(_identity(path)).encode("ascii")
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
    except OSError as error:
        raise sqlite3.OperationalError(f"no seal: {error}") from error
    finally:
        os.close(fd)


def is_intact(path: str) -> bool:
    """Whether the file is as it was left, empty, or missing. Waits for a sojourn process that is writing.

    Raises: sqlite3.OperationalError if that takes too long.
    """
    if not _identity(path)[2:3] or not _identity(path)[2]:
        return True
    try:
        fd = os.open(path + ".seal", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if _fits(fd, path):
            return True
        _lock(fd, fcntl.LOCK_SH)
        return _fits(fd, path)
    except OSError:
        return False
    finally:
        os.close(fd)


def _fits(fd: int, path: str) -> bool:
    seen = _identity(path)
    if not seen or not seen[2]:
        return True
    return os.pread(fd, 400, 0) == json.dumps(seen).encode("ascii")


def _identity(path: str) -> list[int]:
    try:
        seen = os.stat(path)
    except OSError:
        return []
    return [seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def _lock(fd: int, how: int) -> None:
    give_up = time.monotonic() + _WAIT_S
    while True:
        try:
            return fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > give_up:
                raise sqlite3.OperationalError("locked") from error
            time.sleep(0.005)
