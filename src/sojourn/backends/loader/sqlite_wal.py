"""Verifies the write-ahead log of an SQLite database, whose every frame has a checksum. Nothing is written back."""

from __future__ import annotations

from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import sqlite_wal as walker


class Backend(Loader):
    """Loads one -wal file beside a database."""

    kind: ClassVar[str] = "sqlite_wal"
    suffixes: ClassVar[tuple[str, ...]] = (".sqlite-wal", ".sqlite3-wal", ".db-wal", ".db3-wal")
    magic: ClassVar[tuple[bytes, ...]] = walker.MAGICS
    may_be_empty: ClassVar[bool] = True  # left by SQLite when everything is in the database

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Walk it. Raises: Unloadable, OSError."""
        with open(path, "rb") as f:
            found = walker.walk(f)
        remarks = (f"{found.open_frames} pages of a transaction that was not committed",) if found.open_frames else ()
        facts = {"frames": found.frames, "pages": found.pages, "page_bytes": found.page_bytes, "by": "sojourn"}
        return Loaded(("structure", "load"), facts, remarks)
