"""The journal: what this machine asked for and what came of it. Append-only, one JSON record a line; the truth.

A record is written, fsynced and only then acted upon. An append that fails leaves the file as it was.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sojourn.wire import atomic, units
from sojourn.wire.errors import Misuse, WorldError

VERSION = 1
_LOCK_WAIT_S = 10.0
_TAIL = 1 << 13


class StateUnwritable(Misuse):
    """{path} cannot be used: {detail}. Nothing was recorded and nothing was done."""

    code = "state-unwritable"
    next_step = "XDG_STATE_HOME=/a/folder/you/can/write sojourn ..."


class DiskFull(Misuse):
    """No room is left for {path}: {detail}. Nothing was recorded and nothing was done."""

    # This machine's own disk, like cli.main.OwnDisk: 5 is for what the other side says.
    code = "disk-full"
    retry = True
    next_step = "df -h {path}"


class JournalBusy(WorldError):
    """Another sojourn has held {path} for {seconds} s (stopped, or on a slow disk)."""

    code = "journal-busy"
    retry = True


def trouble(error: OSError, path: str) -> Misuse | WorldError:
    """Our error for what the disk said."""
    detail = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path=path, detail=detail)
    if error.errno == errno.EIO:
        return WorldError(detail=f"the disk does not take {path}: {detail}")
    return StateUnwritable(path=path, detail=detail)


class Journal:
    """One journal file. Several processes may append and read at once; a lock is held for each append and each read."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Write one record durably and return it: {"v", "n" (grows by one), "at" (UTC stamp), "kind", ...fields}.

        Blocks at most 10 s for another writer. A torn tail left by a crash is closed first, so it costs only itself.
        Raises: StateUnwritable, DiskFull, JournalBusy, WorldError; TypeError for what JSON cannot say. The file is then
        as it was.
        """
        try:
            fd = self._open_for_append()
        except OSError as error:
            raise trouble(error, self.path) from error
        try:
            with _locked(fd, fcntl.LOCK_EX, self.path):
                size = os.fstat(fd).st_size
                last, is_torn = _tail(fd, size)
                record = {"v": VERSION, "n": last + 1, "at": units.stamp(self._clock()), "kind": kind, **fields}
                data = (b"\n" if is_torn else b"") + json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
                try:
                    _write(fd, data)
                    os.fsync(fd)
                    if size == 0:
                        atomic.sync_folder(os.path.dirname(self.path))
                except BaseException:
                    os.ftruncate(fd, size)
                    raise
            return record
        except OSError as error:
            raise trouble(error, self.path) from error
        finally:
            os.close(fd)

    def records(self, since: int = 0) -> tuple[list[dict[str, Any]], int]:
        """(records, offset of the end) from byte offset `since` on, which is 0 or an offset returned before.

        A last line without its end is left for the next time; a whole line that is no record is skipped.
        No journal yet is ([], 0).   Raises: StateUnwritable, JournalBusy, WorldError.
        """
        data = self.read(since)
        used = data.rfind(b"\n") + 1
        return [record for record in map(_parse, data[:used].split(b"\n")) if record is not None], since + used

    def read(self, since: int = 0, length: int = -1) -> bytes:
        """Raw bytes from `since` on (all, or `length`), read under the lock: never half of an append that is undone."""
        try:
            with open(self.path, "rb") as file, _locked(file.fileno(), fcntl.LOCK_SH, self.path):
                file.seek(since)
                return file.read(length)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise trouble(error, self.path) from error

    def size_bytes(self) -> int:
        """How long the file is; 0 where there is none. Raises: StateUnwritable."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise trouble(error, self.path) from error

    def _open_for_append(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            return os.open(self.path, flags, 0o600)


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


def _tail(fd: int, size: int) -> tuple[int, bool]:
    """(number of the last record, does the file end inside a line); (0, False) for an empty file."""
    if size == 0:
        return 0, False
    window = min(_TAIL, size)
    while True:
        data = os.pread(fd, window, size - window)
        lines = data.split(b"\n")
        for raw in reversed(lines if window == size else lines[1:]):
            record = _parse(raw)
            if record is not None:
                return record["n"], not data.endswith(b"\n")
        if window == size:
            return 0, not data.endswith(b"\n")
        window = min(window * 8, size)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _parse(raw: bytes) -> dict[str, Any] | None:
    """The record on a line, or None: a torn line, or not ours."""
    try:
        record = json.loads(raw)
    except ValueError:
        return None
    if isinstance(record, dict) and isinstance(record.get("kind"), str) and type(record.get("n")) is int:
        return record
    return None
