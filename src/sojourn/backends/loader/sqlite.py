"""Verifies SQLite databases: size against the header's page count, SQLite's own integrity check, no infinite number; on
a read-only, immutable connection, so that nothing is written, recovered or locked, and no function of the database's
own schema is trusted."""

from __future__ import annotations

import os
import sqlite3
import struct
from typing import ClassVar
from urllib.parse import quote

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100


class Backend(Loader):
    """Loads one .sqlite or .db file."""

    kind: ClassVar[str] = "sqlite"
    suffixes: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db3")
    magic: ClassVar[tuple[bytes, ...]] = (MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Check it. Raises: Unloadable, OSError."""
        _check_size(path)
        db = sqlite3.connect(f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1", uri=True)
        try:
            return _check(db, path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise Unloadable("corrupt", f"SQLite refuses it: {str(error)[:200]}") from None
        finally:
            db.close()


def _check_size(path: str) -> None:
    """Raises: Unloadable, OSError."""
    with open(path, "rb") as f:
        head = f.read(_HEADER_BYTES)
        size_bytes = f.seek(0, 2)
    if not head.startswith(MAGIC):
        raise Unloadable("corrupt", "it does not start like an SQLite database")
    if len(head) < _HEADER_BYTES:
        raise Unloadable("truncated", "it ends inside its header")
    (page,) = struct.unpack(">H", head[16:18])
    page = 65536 if page == 1 else page
    changed, pages, valid_for = (struct.unpack(">I", head[at : at + 4])[0] for at in (24, 28, 92))
    if page < 512 or page & (page - 1):
        raise Unloadable("corrupt", f"a page of {page} bytes")
    if pages and changed == valid_for:  # otherwise written by a version before 3.7.0, which keeps no count
        if size_bytes < pages * page:
            raise Unloadable("truncated", f"its header states {pages * page} bytes, there are {size_bytes}")
        if size_bytes > pages * page:
            raise Unloadable("corrupt", f"{size_bytes - pages * page} bytes follow its last page")


def _check(db: sqlite3.Connection, path: str) -> Loaded:
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA mmap_size=0")
    found = [row[0] for row in db.execute("PRAGMA integrity_check(5)")]
    if found != ["ok"]:
        raise Unloadable("corrupt", f"SQLite's integrity check reports: {'; '.join(map(str, found))[:300]}")
    tables, rows, bad = 0, 0, []
    # Views and virtual tables run code from the schema; only plain tables are read.
    query = "SELECT CAST(name AS TEXT) FROM sqlite_master WHERE type='table' AND rootpage > 0"
    for (name,) in db.execute(query).fetchall():
        tables += 1
        quoted = '"' + name.replace('"', '""') + '"'
        columns = [row[1] for row in db.execute(f"PRAGMA table_xinfo({quoted})") if row[6] == 0]
        escaped = ['"' + column.replace('"', '""') + '"' for column in columns]
        infinite = "".join(f", total(typeof({c})='real' AND {c} IN (9e999, -9e999))" for c in escaped[:1000])
        counts = db.execute(f"SELECT count(*){infinite} FROM {quoted}").fetchone()
        rows += counts[0]
        if sum(counts[1:]):
            bad.append(f"{name[:80]}: {int(sum(counts[1:]))} infinite")
    if bad:
        raise Unloadable("non-finite", "; ".join(bad[:5]))
    beside = [path + end for end in ("-wal", "-journal") if os.path.exists(path + end) and os.path.getsize(path + end)]
    remarks = tuple(f"{os.path.basename(p)} beside it holds changes that are not in it yet" for p in beside)
    facts = {"tables": tables, "rows": rows, "by": f"sqlite {sqlite3.sqlite_version}"}
    return Loaded(("structure", "load", "content"), facts, remarks)
