"""A mapped file that a thread has the system fetch, from first byte to last, while others work through it.

Systems read ahead for one reader in order. Callers here wait until their bytes are fetched and mapped; an unreadable
part (a bad sector, a file that became shorter) is then an error. Otherwise, touching it in a map raises a signal that
ends the process.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Any, Iterator

_STEP_BYTES = 8 << 20
_PIECE_BYTES = 1 << 20
_POPULATE_READ = 22  # MADV_POPULATE_READ, since Linux 5.14: madvise(2), 2026-11


def look(fd: int, path: str, at: int, count: int) -> None:
    """Read these bytes of the open file, so that the system caches them.   Raises: OSError if it cannot."""
    end, buffer = at + count, memoryview(bytearray(min(count, _PIECE_BYTES)))
    while at < end:
        got = os.preadv(fd, [buffer[: end - at]], at)
        if not got:
            raise OSError(errno.EIO, "it became shorter while it was read", path)
        at += got


class Fetched:
    """The bytes of the file `path`, mapped as `data`. A context manager: the thread works inside it."""

    def __init__(self, path: str, data: memoryview) -> None:
        self._path, self._data = path, data
        self._reached = 0
        self._error: OSError | None = None
        self._is_over = False
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._fetch)

    def __enter__(self) -> Fetched:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._is_over = True
        self._thread.join()

    def read(self, begin: int, count: int) -> Iterator[memoryview]:
        """`begin` and that many bytes, in pieces of about 1 MiB; waits for each.   Raises: OSError."""
        for at in range(begin, begin + count, _PIECE_BYTES):
            end = min(at + _PIECE_BYTES, begin + count)
            self._wait(end)
            yield self._data[at:end]

    def _wait(self, end: int) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self._reached >= end or self._is_over)
            if self._reached < end:
                raise self._error or OSError(errno.EIO, "it was not read to its end", self._path)

    def _fetch(self) -> None:
        try:
            with open(self._path, "rb", buffering=0) as f:
                for at in range(0, len(self._data), _STEP_BYTES):
                    if self._is_over:
                        return
                    count = min(_STEP_BYTES, len(self._data) - at)
                    if not self._map(at, count):
                        look(f.fileno(), self._path, at, count)
                    with self._moved:
                        self._reached = at + count
                        self._moved.notify_all()
        except OSError as e:
            self._error = e
        finally:
            with self._moved:
                self._is_over = True  # nobody waits for ever, whatever went wrong
                self._moved.notify_all()

    def _map(self, at: int, count: int) -> bool:
        """Have the system read these bytes into the map. False if it does not, for whatever reason."""
        try:
            import ctypes
        except ImportError:  # a Python built without it
            return False
        # Not by mmap.madvise, which holds the GIL until the disk answers.
        here = ctypes.addressof(ctypes.c_char.from_buffer(self._data.obj)) + at
        return bool(ctypes.CDLL(None).madvise(ctypes.c_void_p(here), ctypes.c_size_t(count), _POPULATE_READ) == 0)
