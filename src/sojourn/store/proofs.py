"""What was proven on this machine, so that an unchanged file is not read again: a cache, which may be deleted.

A file is the same where device, inode, size, modification and change time all are: whoever writes to it, or sets its
times back, moves its change time. What that cannot show: a disk that rots, a write past the file system. So nothing
that lets go of anything believes it (`down` reads every copy again), and `verify --fresh` does not ask it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sojourn.store import private

_SCHEMA = """
CREATE TABLE IF NOT EXISTS proofs (
  key TEXT PRIMARY KEY, made TEXT NOT NULL, at_s REAL NOT NULL, held TEXT NOT NULL
) WITHOUT ROWID
"""
_KEPT = 200_000  # rows; the oldest go first
# A file written again within one tick of its file system's clock keeps its times. Ticks are 1 to 10 ms where a time has
# a fraction, and up to 2 s (FAT) where it has none.
_TICK_NS, _COARSE_TICK_NS = 100_000_000, 2_500_000_000


class Proofs:
    """The record in the file `path`, of proofs that were made by what `made` names (loaders and libraries).

    A context manager. Thread-safe; several processes may use one file. Where it cannot be read or written, nothing is
    known and nothing is kept: never an error.
    """

    def __init__(self, path: str, made: str) -> None:
        self._made = made
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        try:
            private.folder(os.path.dirname(path))
            private.file(path)
            self._db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_SCHEMA)
        except (OSError, sqlite3.Error):
            self._forsake()

    def __enter__(self) -> Proofs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            if self._db is not None:
                try:
                    count = self._db.execute("SELECT count(*) FROM proofs").fetchone()[0]
                    if count > _KEPT:
                        oldest = "SELECT key FROM proofs ORDER BY at_s LIMIT ?"
                        self._db.execute(f"DELETE FROM proofs WHERE key IN ({oldest})", (count - _KEPT,))
                except sqlite3.Error:
                    pass  # another process is at it; the next one tidies
            self._forsake()

    def known(self, key: str) -> Mapping[str, Any] | None:
        """What `keep` was given under this key, by the same loaders; None where there is nothing."""
        with self._lock:
            if self._db is None:
                return None
            try:
                row = self._db.execute("SELECT made, held FROM proofs WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error:
                return None
        if row is None or row[0] != self._made:
            return None
        try:
            held = json.loads(row[1])
        except ValueError:
            return None
        return held if isinstance(held, dict) else None

    def keep(self, key: str, held: Mapping[str, Any], now_s: float) -> None:
        """Keep it under this key. It outlives this process from now on."""
        with self._lock:
            if self._db is None:
                return
            try:
                row = (key, self._made, now_s, json.dumps(held))
                self._db.execute("INSERT OR REPLACE INTO proofs VALUES (?, ?, ?, ?)", row)
            except sqlite3.Error:
                self._forsake()

    def _forsake(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None


def identity(seen: os.stat_result) -> tuple[int, ...]:
    """What stays as it is as long as nobody writes to the file."""
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def is_settled(seen: os.stat_result, began_ns: int) -> bool:
    """Its times are old enough at `began_ns` (when reading it began) that a later write must have moved them."""
    newest = max(seen.st_mtime_ns, seen.st_ctime_ns)
    return began_ns - newest > (_TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS)


def now_ns() -> int:
    """The clock that file systems use."""
    return time.time_ns()
