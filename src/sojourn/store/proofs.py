"""What was verified on this machine, so that an unchanged file is not read again: a cache, which may be deleted.

A file is the same if device, inode, size, modification and change time all are: any write, or setting its times back,
moves its change time. That cannot show a failing disk or a write past the file system. So nothing that releases
anything relies on it (`down` rereads every copy), and `verify --fresh` skips it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from sojourn.store import private

_SCHEMA = """
CREATE TABLE IF NOT EXISTS proofs (
  key TEXT PRIMARY KEY, made TEXT NOT NULL, at_s REAL NOT NULL, held TEXT NOT NULL
) WITHOUT ROWID
"""
_KEPT = 200_000  # rows; the oldest go first
# A file rewritten within one tick of its file system's clock keeps its times. Ticks are 1 to 10 ms if times have a
# fraction, and up to 2 s (FAT) if not.
_TICK_NS, _COARSE_TICK_NS = 100_000_000, 2_500_000_000


class Proofs:
    """The verifications recorded in the file `path`, made by what `made` names (loaders and libraries).

    A context manager. Thread-safe; several processes may share one file. If it cannot be read or written, nothing is
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
                    pass  # another process is tidying; the next one will
            self._forsake()

    def known(self, key: str) -> Mapping[str, Any] | None:
        """What `keep` was given under this key, by the same loaders; None if nothing."""
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

    def keep(self, rows: Iterable[tuple[str, Mapping[str, Any], float]]) -> None:
        """Keep each (key, what is to be held, when), durably beyond this process."""
        with self._lock:
            if self._db is None:
                return
            try:
                self._db.execute("BEGIN IMMEDIATE")
                values = ((key, self._made, at_s, json.dumps(held)) for key, held, at_s in rows)
                self._db.executemany("INSERT OR REPLACE INTO proofs VALUES (?, ?, ?, ?)", values)
                self._db.execute("COMMIT")
            except sqlite3.Error:
                self._forsake()

    def _forsake(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None


def identity(seen: os.stat_result) -> tuple[int, ...]:
    """What stays the same until somebody writes to the file."""
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def is_settled(seen: os.stat_result, began_ns: int) -> bool:
    """Its times were old enough at `began_ns` (when reading it began) that any later write must have changed them."""
    newest = max(seen.st_mtime_ns, seen.st_ctime_ns)
    return began_ns - newest > (_TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS)


def now_ns() -> int:
    """The clock used by file systems."""
    return time.time_ns()
