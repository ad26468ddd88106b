"""The journal: what this machine requested and what happened. Append-only, one JSON record per line; the truth.

A record is written, fsynced, noted in the head, and only then acted on. A failed append leaves the file unchanged.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sojourn.store import chain, private
from sojourn.store.chain import End, Head
from sojourn.wire import atomic, units
from sojourn.wire.errors import Misuse, WorldError

_LOCK_WAIT_S = 10.0
_TAIL = 1 << 13


class StateUnwritable(Misuse):
    """{path} cannot be used: {detail}. Nothing was recorded or changed."""

    code = "state-unwritable"
    next_step = "XDG_STATE_HOME=/a/folder/you/can/write sojourn ..."


class DiskFull(Misuse):
    """The disk has no space for {path}: {detail}. Nothing was recorded or changed."""

    # This machine's own disk, like cli.main.OwnDisk: 5 is for errors of the other side.
    code = "disk-full"
    retry = True
    next_step = "df -h {path}"


class JournalBusy(WorldError):
    """Another sojourn process has held {path} for {seconds} s (suspended, or on a slow disk)."""

    code = "journal-busy"
    retry = True


def trouble(error: OSError, path: str) -> Misuse | WorldError:
    """Our error for an error of the disk."""
    detail = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path=path, detail=detail)
    if error.errno == errno.EIO:
        return WorldError(detail=f"the disk cannot store {path}: {detail}")
    return StateUnwritable(path=path, detail=detail)


@dataclass(frozen=True)
class Look:
    """A journal and its head at one moment, under the lock. `data`: from the requested offset on."""

    data: bytes
    stat: tuple[int, ...]
    head: Head | None
    has_head: bool
    head_stat: tuple[int, ...]
    read: Callable[[int, int], bytes]

    @property
    def is_as_left(self) -> bool:
        """The last writer of the journal was an append that knows of heads."""
        return self.head is not None and self.head.stat == self.stat


class Journal:
    """One journal file. Several processes may append and read at once; every append and every read takes a lock."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.head_path = os.path.splitext(path)[0] + ".head"
        self._clock = clock

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Write one record durably and return it: {"v", "n" (grows by one), "at" (UTC stamp), "kind", ...fields} and
        its links (store.chain).

        Blocks at most 10 s for another writer. A torn tail left by a crash is closed first, so only it is lost; the new
        record reports a lost one. Raises: StateUnwritable, DiskFull, JournalBusy, WorldError; TypeError for what JSON
        cannot express. The file is then unchanged.
        """
        try:
            fd = self._open_for_append()
        except OSError as error:
            raise trouble(error, self.path) from error
        try:
            with _locked(fd, fcntl.LOCK_EX, self.path):
                return self._append(fd, kind, fields)
        except OSError as error:
            raise trouble(error, self.path) from error
        finally:
            os.close(fd)

    def _append(self, fd: int, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        was = os.fstat(fd)
        size = was.st_size
        head, has_head = self._head()
        end = _end(fd, size)
        prev, over = (end.n, end.sum), ""
        if chain.end_gap(end, head, has_head, lambda start, stop: _read(fd, start, stop)):
            # What is lost must stay lost: this line links to what should be there, and so to nothing present.
            lost = head is not None and (head.n, head.sum) != (end.linked, end.sum) and head.n >= end.linked
            prev = (head.n, head.sum) if lost and head else (end.n, chain.UNKNOWN)
        elif size + end.is_torn != end.sealed_to:
            over = chain.digest(_read(fd, end.sealed_to, size) + b"\n" * end.is_torn)
        at = units.stamp(self._clock())
        record = {"v": chain.VERSION, "n": chain.next_n(end, head), "at": at, "kind": kind, **fields}
        record, line = chain.linked(record, prev, over)
        odd = head.odd + (head.stat != identity(was)) if head else 0
        try:
            if not has_head and not end.linked:
                # Before the first line it covers: from now on a missing head means that it was lost.
                self._keep_head(Head(0, end.sum, size, identity(was), 0))
            _write(fd, b"\n" * end.is_torn + line + b"\n")
            os.fsync(fd)
            if size == 0:
                atomic.sync_folder(os.path.dirname(self.path))
            now = os.fstat(fd)
            self._keep_head(Head(record["n"], record["sum"], now.st_size, identity(now), odd))
        except BaseException:
            os.ftruncate(fd, size)
            raise
        return record

    def look(self, since: int = 0) -> Look | None:
        """The journal from byte `since` on, and its head; None if there is no journal.

        Raises: StateUnwritable, JournalBusy, WorldError.
        """
        try:
            with open(self.path, "rb", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_SH, self.path):
                head, has_head = self._head()
                head_stat = self.identities()[1]
                stat = os.fstat(file.fileno())
                data = _read(file.fileno(), since, stat.st_size)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise trouble(error, self.path) from error
        return Look(data, identity(stat), head, has_head, head_stat, self._between)

    def nothing(self) -> Look:
        """The result of `look` without a journal: the head may still exist."""
        head, has_head = self._head()
        return Look(b"", (), head, has_head, self.identities()[1], self._between)

    def _between(self, start: int, stop: int) -> bytes:
        return self.read(start, stop - start)

    def records(self, since: int = 0) -> tuple[list[dict[str, Any]], int]:
        """(records, end offset) from byte offset `since` on, which is 0 or an offset returned before.

        An incomplete last line is left for the next call; a whole line that is not a record is skipped. Without a
        journal: ([], 0).   Raises: StateUnwritable, JournalBusy, WorldError.
        """
        data = self.read(since)
        used = data.rfind(b"\n") + 1
        return [record for record in map(chain.parse, data[:used].split(b"\n")) if record is not None], since + used

    def read(self, since: int = 0, length: int = -1) -> bytes:
        """Raw bytes from `since` on (all, or `length`), read under the lock: never half of an append that is then
        undone.
        """
        try:
            with open(self.path, "rb") as file, _locked(file.fileno(), fcntl.LOCK_SH, self.path):
                file.seek(since)
                return file.read(length)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise trouble(error, self.path) from error

    def size_bytes(self) -> int:
        """The file's length; 0 if there is none. Raises: StateUnwritable."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise trouble(error, self.path) from error

    def identities(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What shows whether the journal and its head are unchanged; () if there are none.

        Raises: StateUnwritable.
        """
        return self._identity(self.path), self._identity(self.head_path)

    def _identity(self, path: str) -> tuple[int, ...]:
        try:
            return identity(os.stat(path))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise trouble(error, path) from error

    def _head(self) -> tuple[Head | None, bool]:
        """(the head, or None if it is invalid; whether its file exists)."""
        try:
            with open(self.head_path, "rb", buffering=0) as file:
                return chain.head_from(file.read(chain.HEAD_BYTES + 1)), True
        except FileNotFoundError:
            return None, False
        except OSError:
            return None, True

    def _keep_head(self, head: Head) -> None:
        """In place, in one sector: after a power cut it is either the old or the new one, and the old one is not
        damage.
        """
        data = chain.head_bytes(head)
        try:
            fd = os.open(self.head_path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            atomic.write(self.head_path, data, mode=0o600)
            return
        try:
            os.pwrite(fd, data, 0)
            if os.fstat(fd).st_size != len(data):
                os.ftruncate(fd, len(data))
        finally:
            os.close(fd)

    def _open_for_append(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            private.folder(os.path.dirname(self.path))
            return os.open(self.path, flags, 0o600)


def identity(stat: os.stat_result) -> tuple[int, ...]:
    """What stays the same about a file until somebody writes to it."""
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@contextmanager
def _locked(fd: int, how: int, path: str) -> Iterator[None]:
    """Hold a flock on `fd`, waiting at most 10 s. Raises: JournalBusy, OSError."""
    give_up = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                raise
            if time.monotonic() > give_up:
                raise JournalBusy(path=path, seconds=int(_LOCK_WAIT_S)) from error
            time.sleep(0.005)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _end(fd: int, size: int) -> End:
    """How the journal ends; without a line of version 2, all of it is read."""
    window = min(_TAIL, size)
    while True:
        found = chain.last(_read(fd, size - window, size), size - window)
        if found.linked or window == size:
            return found
        window = min(window * 8, size)


def _read(fd: int, start: int, stop: int) -> bytes:
    parts = []
    while start < stop:
        part = os.pread(fd, stop - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
