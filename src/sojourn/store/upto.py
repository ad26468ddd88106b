"""How far the index follows the journal. Only new records are read and verified; all if anything changed."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from sojourn.store import rows
from sojourn.store.chain import Chain, Gap, chain_from, end_gap
from sojourn.store.intact import writing
from sojourn.store.journal import Journal, Look

_SMALL = 256 << 10
_TICK_NS = 10_000_000


def written(db: sqlite3.Connection, write: Callable[[sqlite3.Connection], object]) -> None:
    """`write` in one transaction: that of `together`, or a new one. Raises: sqlite3.Error, as `write`."""
    is_together = db.in_transaction
    if is_together:
        write(db)
        return
    with writing(file_of(db)):
        db.execute("BEGIN IMMEDIATE")
        try:
            write(db)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def file_of(db: sqlite3.Connection) -> str:
    """The file of a database; "" if it is in memory."""
    return str(db.execute("PRAGMA database_list").fetchone()[2])


def caught_up(db: sqlite3.Connection, journal: Journal) -> None:
    """Take the journal's new records into the index, verified; rebuild it if the journal was replaced or changed.

    Raises: sqlite3.Error; as `Journal.look`.
    """
    if _is_current(db, journal):
        return

    def take_in(db: sqlite3.Connection) -> None:
        held = known(db)
        look = journal.look(held.chain.offset if held else 0)
        chain = held.chain if held else Chain()
        if held is None:
            _emptied(db)
        elif look is not None and not held.grew_to(look):
            # Not just an append: what was read before is compared, and reread if it differs.
            look = journal.look()
            if look is not None and zlib.crc32(look.data[: chain.offset]) == chain.crc:
                look = replace(look, data=look.data[chain.offset :])
            else:
                chain = Chain()
                _emptied(db)
        elif look is None and chain.offset:
            chain = Chain()
            _emptied(db)
        if look is None:
            look = journal.nothing()
        for record in chain.take(look.data, look.read):
            rows.apply(db, record)
        tail = end_gap(chain.end(), look.head, look.has_head, look.read)
        _keep(db, Known(chain, tail, look.stat, look.head_stat, look.head.odd if look.head else -1))

    written(db, take_in)


@dataclass(frozen=True)
class Known:
    """How far the index has the journal: what was verified, what is wrong at its end, and the files' identities."""

    chain: Chain
    tail: Gap | None
    stat: tuple[int, ...]
    head_stat: tuple[int, ...]
    odd: int

    def grew_to(self, look: Look) -> bool:
        """Only appends came in between, each finding the journal as the previous one left it."""
        return (
            look.is_as_left
            and look.head is not None
            and look.head.odd == self.odd
            and self.stat[:2] == look.stat[:2]
            and look.stat[2] >= self.chain.offset
        )


def _is_current(db: sqlite3.Connection, journal: Journal) -> bool:
    held = known(db)
    if held is None or (held.stat, held.head_stat) != journal.identities():
        return False
    # Writing twice within one tick of the file clock leaves the times unchanged: look once more.
    if not held.stat or held.stat[2] > _SMALL or time.time_ns() - held.stat[3] > 10 * _TICK_NS:
        return True
    data = journal.read()
    return len(data) == held.stat[2] and zlib.crc32(data[: held.chain.offset]) == held.chain.crc


def known(db: sqlite3.Connection) -> Known | None:
    """How far the index has a journal, or None if it must be rebuilt."""
    if db.execute("PRAGMA user_version").fetchone()[0] != rows.SCHEMA_VERSION:
        return None
    found = db.execute("SELECT value FROM marks WHERE key = 'journal'").fetchone()
    try:
        value = json.loads(found[0]) if found else None
        chain = chain_from(value["chain"]) if isinstance(value, dict) else None
        if chain is None or value is None:
            return None
        tail = Gap(**value["tail"]) if value["tail"] else None
        return Known(chain, tail, tuple(value["stat"]), tuple(value["head"]), value["odd"])
    except (ValueError, TypeError, KeyError):
        return None


def _keep(db: sqlite3.Connection, held: Known) -> None:
    tail = asdict(held.tail) if held.tail else None
    value = {"chain": held.chain.as_plain(), "tail": tail, "stat": held.stat, "head": held.head_stat}
    text = json.dumps({**value, "odd": held.odd}, separators=(",", ":"))
    db.execute("INSERT OR REPLACE INTO marks VALUES ('journal', ?)", (text,))


def _emptied(db: sqlite3.Connection) -> None:
    for (table,) in db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall():
        db.execute(f'DROP TABLE "{table}"')
    for statement in (*rows.TABLES.split(";"), *rows.TRIGGERS):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {rows.SCHEMA_VERSION}")
