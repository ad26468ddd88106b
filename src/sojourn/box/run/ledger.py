"""events.jsonl, kept by its one writer: never a torn line in the middle, nothing lost while the disk is full."""

from __future__ import annotations

import errno
import os
import time

from sojourn.box.run.history import History
from sojourn.box.system.wake import c_library
from sojourn.wire import events, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple

_KEPT = 2000  # lines kept in memory while they cannot be written; older beats are dropped first
_PASSING = ("beat", "moving", "stalled")
_ROOM_BYTES = 32 << 10  # reserved after the end of the file, for what must be recorded when the disk is full
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_BLOCK_BYTES = 4096


class Ledger:
    """Only the holder of keeper.lock makes one. `history` is what the events say, updated with every note."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.history = History()
        self._waiting: List[Tuple[str, bytes]] = []
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._ends_torn = self._read()
        self._room_from = -1  # start of the reserved room when last seen whole
        self._is_full = False  # not all of it is available: the disk is full, and beats must not use up what remains

    def note(self, kind: str, attempt: int, **fields: Any) -> bool:
        """Write one event, durably if its kind requires it; False if it waits in memory (the disk is full).

        Never raises for the disk: our record-keeping must not kill the payload.
        """
        seq = self.history.seq + 1
        at = units.stamp(time.time())
        line = events.line(seq, at, kind, attempt, fields)
        event: Any = dict(fields, seq=seq, at=at, kind=kind, attempt=attempt)
        self.history.add(event)
        self._waiting.append((kind, line))
        if len(self._waiting) > _KEPT:
            self._drop_one()
        return self.flush()

    def flush(self) -> bool:
        """Write what waits; True once nothing waits and durable events are on disk."""
        durable = False
        self._reserve()
        if self._is_full and any(kind not in _PASSING for kind, _ in self._waiting):
            self._waiting = [one for one in self._waiting if one[0] not in _PASSING]
        elif self._is_full:
            return not self._waiting
        while self._waiting:
            kind, line = self._waiting[0]
            if not self._write(line):
                return False
            durable = durable or kind in events.DURABLE
            del self._waiting[0]
        if durable:
            try:
                os.fsync(self._fd)
            except OSError as error:
                complain("events.jsonl: fsync: %s" % error)
                return False
        return True

    @property
    def is_displaced(self) -> bool:
        """Whether somebody deleted the root under us and another run's events are now in its place."""
        try:
            there, mine = os.stat(self.path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def close(self) -> None:
        """Write what waits, as far as the disk allows, and close. Idempotent."""
        if self._fd >= 0:
            self.flush()
            if self.history.is_sealed:
                self._give_back()
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> bool:
        """Fold the existing events; True if the last line is torn."""
        last = beat = b"\n"
        with open(self.path, "rb") as f:
            for last in f:
                # Beats matter only by their number and the last one's content; there may be a million.
                if b'"kind":"beat"' in last[:200] and last.endswith(b"\n"):
                    self.history.seq = max(self.history.seq, _seq_of(last))
                    beat = last
                    continue
                event = events.parse_line(last)
                if event is not None:
                    self.history.add(event)
        self.history.add(events.parse_line(beat) or {})
        return not last.endswith(b"\n")

    def _reserve(self) -> None:
        """Have room after the end of the file, if the file system supports it; check whether the disk is full."""
        size = os.fstat(self._fd).st_size
        if not self._is_full and size // _BLOCK_BYTES == self._room_from // _BLOCK_BYTES:
            return
        libc = c_library()
        fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)  # musl has only the second
        if fallocate is None:
            return
        import ctypes

        is_refused = fallocate(self._fd, _KEEP_SIZE, ctypes.c_int64(size), ctypes.c_int64(_ROOM_BYTES)) != 0
        self._is_full = is_refused and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT)
        self._room_from = size

    def _give_back(self) -> None:
        try:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size)
        except OSError as error:
            complain("events.jsonl: %s" % error)

    def _write(self, line: bytes) -> bool:
        data = b"\n" + line if self._ends_torn else line
        try:
            size = os.fstat(self._fd).st_size
            written = os.write(self._fd, data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                complain("events.jsonl: %s" % error)
            return False
        if written == len(data):
            self._ends_torn = False
            return True
        try:
            os.ftruncate(self._fd, size)  # works on a full disk, and no reader has used a line without its end
        except OSError:
            self._ends_torn = True
        return False

    def _drop_one(self) -> None:
        for at, (kind, _) in enumerate(self._waiting):
            if kind in _PASSING:
                del self._waiting[at]
                return
        del self._waiting[0]


def _seq_of(line: bytes) -> int:
    _, _, rest = line.partition(b'"seq":')
    digits = rest.partition(b",")[0]
    return int(digits) if digits.isdigit() else 0


def complain(text: str) -> None:
    """One line into the keeper's own log, if it can be written."""
    line = "%s %s\n" % (units.stamp(time.time()), text)
    try:
        os.write(
            2, line.encode("utf-8", "backslashreplace")
        )  # unbuffered: what the disk refuses must not remain for exit
    except OSError:
        return
