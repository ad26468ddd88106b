"""One reading of a file, from start to end, shared by its loader and its sha256: a large one bypasses the page cache.

Filling that cache takes more of a core than everything else done with the bytes (measured, cold, core seconds per GB:
1.7 for the cache, 0.1 past it, 0.55 for sha256, 0.24 for CRC, 0.05 for scanning every value). So a thread reads a few
pieces ahead by O_DIRECT, if the system supports that and the cache does not have the file, another hashes them, and the
caller scans the same pieces meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from sojourn.formats.damage import Unloadable

_PIECE_BYTES = 2 << 20
_AHEAD = 4  # pieces held by one reading
_LOOK_BYTES = 1 << 20  # per piece handed out: fits the cache next to a core
_SMALL_BYTES = 4 << 20  # below it, threads cost more than they gain
_SAMPLES = 8
_BLOCK = 4096


class Reading:
    """The file at `path`, opened. `pieces` reads on; `finish` reads the rest and returns the whole's size and hash.

    Another thread calls `tick` with the number of bytes read, about every 2 MiB. Takes 8 MiB of memory. A context
    manager. Raises: OSError.
    """

    def __init__(self, path: str, tick: Callable[[int], None] | None = None) -> None:
        self.path, self._tick = path, tick
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.bytes = os.fstat(self._fd).st_size
        self._direct = -1
        self._sum = hashlib.sha256()
        self._ring: list[mmap.mmap] = []
        self._counts = [0] * _AHEAD
        self._threads: list[threading.Thread] = []
        self._turn = threading.Condition()
        # Numbers of pieces read, hashed, and scanned; the last only while somebody scans.
        self._filled = self._hashed = self._looked = 0
        self._read_bytes = -1  # of the whole file, once the end is reached
        self._error: OSError | None = None
        self._is_left = False

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._turn:
            self._is_left = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()
        for fd in (self._fd, self._direct):
            if fd >= 0:
                os.close(fd)
        self._fd = self._direct = -1

    def pieces(self, begin: int, count: int) -> Iterator[memoryview]:
        """`count` bytes from byte `begin` on, in pieces of at most 1 MiB; each is valid until the next is requested.

        Cheap if `begin` is at or after the end of the last call; earlier data is read again.
        Raises: Unloadable("truncated") if the file ends before that, OSError.
        """
        end = begin + count
        while begin < end:
            piece = self.at(begin, min(end - begin, _LOOK_BYTES))
            if not len(piece):
                raise Unloadable("truncated", "the file ended while it was read")
            yield piece
            begin += len(piece)

    def open(self) -> io.BufferedReader:
        """The file as a stream from its start, for forward reading."""
        return io.BufferedReader(_Stream(self), _LOOK_BYTES)

    def finish(self) -> tuple[int, str]:
        """(bytes, sha256) of the whole file. No piece can be requested afterwards. Raises: OSError."""
        if not self._threads and self.bytes < _SMALL_BYTES:
            return self._hash_here()
        self._begin()
        with self._turn:
            self._looked = 1 << 62
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()
        if self._error:
            raise self._error
        return self._read_bytes, self._sum.hexdigest()

    def _hash_here(self) -> tuple[int, str]:
        # Memory just for a small file: clearing a MiB takes longer than hashing a few KB.
        total, buffer = 0, bytearray(min(_LOOK_BYTES, self.bytes + 1))
        while count := os.preadv(self._fd, [buffer], total):
            self._sum.update(memoryview(buffer)[:count])
            total += count
        if self._tick:
            self._tick(total)
        return total, self._sum.hexdigest()

    def at(self, begin: int, count: int) -> memoryview:
        """Some of the `count` bytes at `begin`, none if the file has ended there. As in `pieces`."""
        index = begin // _PIECE_BYTES
        if index < self._looked or (not self._threads and self.bytes < _SMALL_BYTES):
            return memoryview(os.pread(self._fd, count, begin))
        self._begin()
        with self._turn:
            while True:
                self._looked = min(index, self._filled)  # skipped pieces are released one by one
                self._turn.notify_all()
                if self._filled > index or self._read_bytes >= 0 or self._error:
                    break
                self._turn.wait()
        if self._error:
            raise self._error
        if self._filled <= index:
            return memoryview(b"")
        slot, at = index % _AHEAD, begin % _PIECE_BYTES
        return memoryview(self._ring[slot])[at : min(self._counts[slot], at + count)]

    def _begin(self) -> None:
        if self._threads:
            return
        if hasattr(os, "O_DIRECT") and not self._is_cached():
            try:
                self._direct = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
            except OSError:
                pass  # not supported by every file system
        self._ring = [mmap.mmap(-1, _PIECE_BYTES) for _ in range(_AHEAD)]
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._fill, self._hash)]
        for thread in self._threads:
            thread.start()

    def _is_cached(self) -> bool:
        """Whether the page cache has it, judged by some random blocks."""
        if not hasattr(os, "RWF_NOWAIT"):
            return False
        block = bytearray(1)
        try:
            return all(
                os.preadv(self._fd, [block], random.randrange(self.bytes), os.RWF_NOWAIT) for _ in range(_SAMPLES)
            )
        except OSError:
            return False  # EAGAIN: it would have to be read from disk

    def _fill(self) -> None:
        """Read on while there is room."""
        total = 0
        try:
            while True:
                with self._turn:
                    self._turn.wait_for(lambda: self._is_left or self._room() > 0)
                    if self._is_left:
                        return
                count = self._fetch(memoryview(self._ring[self._filled % _AHEAD]), total)
                total += count
                with self._turn:
                    self._counts[self._filled % _AHEAD] = count
                    if count:
                        self._filled += 1
                    if count < _PIECE_BYTES:
                        self._read_bytes = total
                    self._turn.notify_all()
                if count < _PIECE_BYTES:
                    return
        except OSError as error:
            with self._turn:
                self._error = error
                self._turn.notify_all()

    def _room(self) -> int:
        return _AHEAD - (self._filled - min(self._hashed, self._looked))

    def _fetch(self, piece: memoryview, at: int) -> int:
        """Fill `piece` from byte `at` on; fewer bytes only at the end."""
        count = 0
        if self._direct >= 0:
            try:
                count = os.preadv(self._direct, [piece], at)
            except OSError as error:
                if error.errno != errno.EINVAL:  # EINVAL means: another alignment than ours
                    raise
        while count < len(piece):
            more = os.preadv(self._fd, [piece[count:]], at + count)
            if not more:
                break
            count += more
        return count

    def _hash(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(self._may_hash)
                if self._is_left or self._error or self._filled == self._hashed:
                    return
                slot = self._hashed % _AHEAD
            count = self._counts[slot]
            self._sum.update(memoryview(self._ring[slot])[:count])
            if self._tick:
                self._tick(count)
            with self._turn:
                self._hashed += 1
                self._turn.notify_all()

    def _may_hash(self) -> bool:
        is_over = self._is_left or self._error is not None or self._read_bytes >= 0
        return is_over or self._filled > self._hashed


class _Stream(io.RawIOBase):
    def __init__(self, reading: Reading) -> None:
        self._reading, self._at = reading, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._reading.at(self._at, len(buffer))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


_shared: Reading | None = None


@contextmanager
def shared(path: str, tick: Callable[[int], None] | None = None) -> Iterator[Reading]:
    """A Reading shared by all in this process that ask for one of `path` meanwhile; one at a time."""
    global _shared
    with Reading(path, tick) as _shared:
        try:
            yield _shared
        finally:
            _shared = None


@contextmanager
def of(path: str) -> Iterator[Reading]:
    """The shared Reading of `path`, else a new one."""
    if _shared is not None and _shared.path == path:
        yield _shared
        return
    with Reading(path) as own:
        yield own
