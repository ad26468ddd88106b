"""The index: a SQLite cache of the journal, so that a thousand runs list in milliseconds.

It may be deleted at any time, and is rebuilt if missing, damaged, of another version, or made from another journal. If
it cannot be written (read-only or full disk, locked by a hung process) it is built in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

from sojourn.core.fold import Status
from sojourn.core.plain import site_from
from sojourn.core.values import Site, build_frozen
from sojourn.store import private, rows
from sojourn.store.chain import Gap
from sojourn.store.intact import Damaged, is_intact, writing
from sojourn.store.journal import Journal
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.store.upto import caught_up, file_of, known, written
from sojourn.wire import names
from sojourn.wire.errors import Misuse

T = TypeVar("T")

_LOCK_WAIT_S = 2.0
# Raised by content that we did not write.
_BAD = (sqlite3.Error, ValueError, TypeError, KeyError, IndexError, OverflowError)


class NotFound(Misuse):
    """No {what} is called {wanted!r}{hint}."""

    code = "not-found"
    next_step = "sojourn status"


class Ambiguous(Misuse):
    """{wanted!r} is ambiguous: {count} {what}s begin with it: {some}."""

    code = "ambiguous"


class Index:
    """What the journal says, by run and by lease. Opening it catches up with the journal."""

    def __init__(self, state_dir: str, journal: Journal) -> None:
        self._path = os.path.join(state_dir, "index.sqlite")
        self._journal = journal
        self._had_folder = os.path.isdir(state_dir)
        self._db = self._open()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._db.close()

    def catch_up(self) -> None:
        """Take in the journal's new records. Cheap if there are none. Raises: as `Journal.records`."""
        if not self._had_folder and os.path.isdir(os.path.dirname(self._path)):
            self._had_folder = True
            self._db.close()
            self._db = self._open()
        self._safely(caught_up, self._journal)

    def run(self, run: str) -> RunRecord | None:
        """The run with exactly this id."""
        found = self._runs("WHERE id = ?", (run,))
        return found[0] if found else None

    def runs(self) -> list[RunRecord]:
        """All runs, in planning order; no revisions."""
        return self._runs(f"WHERE {_CURRENT} ORDER BY n, rowid", ())

    def revisions(self, run: str) -> list[RunRecord]:
        """Earlier runs of this name that left nothing behind, in planning order."""
        return self._runs("WHERE id GLOB ? ORDER BY n, rowid", (f"{run}@*",))

    def first_attempt(self, run: str) -> int:
        """The number of the first attempt of a new run of this name: its revisions' numbers are not reused."""
        return 1 + max((one.attempt for one in self.revisions(run)), default=0)

    def recent(self, settled: int) -> tuple[list[RunRecord], int]:
        """(every run that may still report and the newest `settled` others, in planning order; the number of runs left
        out), without revisions. Runs left out cost next to nothing.
        """
        ids = [
            row[0]
            for query, values in (
                (f"SELECT id FROM runs WHERE NOT ({_SETTLED}) AND {_CURRENT}", ()),
                (f"SELECT id FROM runs WHERE {_SETTLED} AND {_CURRENT} ORDER BY since DESC LIMIT ?", (settled,)),
            )
            for row in self._safely(_select, query, values)
        ]
        ((count,),) = self._safely(_select, f"SELECT count(*) FROM runs WHERE {_CURRENT}", ())
        return self.some(ids), count - len(ids)

    def some(self, ids: Sequence[str]) -> list[RunRecord]:
        """The runs with exactly these ids, in planning order."""
        return self._runs(_OF_THESE, (json.dumps(ids),))

    def settled_at(self, machine: str) -> dict[str, int]:
        """The offset of each run there that will report nothing more and whose root was not removed."""
        is_there = "(lease = ? OR (lease = '' AND site_name = ?))"  # as RunRecord.machine
        query = f"SELECT id, offset FROM runs WHERE {_SETTLED} AND {is_there} AND phase != 'cleaned'"
        return dict(self._safely(_select, query, (machine, machine)))

    def find(self, wanted: str) -> RunRecord:
        """The run with this id, or the only one whose id starts with it; a revision only by its whole id.

        Raises: NotFound, Ambiguous.
        """
        ids = [row[0] for row in self._safely(_select, f"SELECT id FROM runs WHERE {_CURRENT} ORDER BY n", ())]
        ids += [wanted] if "@" in wanted and self.run(wanted) else []
        record = self.run(resolve(wanted, ids, "run"))
        if record is None:
            raise NotFound(what="run", wanted=wanted, hint="")
        return record

    def sweeps(self) -> list[str]:
        """Names of all sweeps, in the order of their first planning."""
        found = self._safely(_select, "SELECT sweep FROM runs WHERE sweep != '' GROUP BY sweep ORDER BY min(n)", ())
        return [row[0] for row in found]

    def cells(self, sweep: str) -> list[RunRecord]:
        """The runs of exactly this sweep, in planning order."""
        return self._runs("WHERE sweep = ? ORDER BY n, rowid", (sweep,))

    def earlier(self, sweep: str) -> list[tuple[str, Site, Mapping[str, Any] | None]]:
        """(run, site, its launch's handle) for each site where a cell of this sweep was planned before it moved."""
        query = (
            "SELECT e.run, e.site, e.tether FROM earlier e JOIN runs r ON r.id = e.run"
            " WHERE r.sweep = ? AND e.site_name != r.site_name ORDER BY e.run"
        )
        rows = self._safely(_select, query, (sweep,))
        return [(run, site_from(json.loads(site)), json.loads(tether)) for run, site, tether in rows]

    def named(self, wanted: str) -> list[RunRecord]:
        """The run with this id, or the cells of the sweep with this name; else a unique beginning of either.

        A beginning that only a sweep and its own cells share means the sweep. Raises: NotFound, Ambiguous.
        """
        sweep = self.sweep(wanted)
        return self.cells(sweep) if sweep else [self.find(wanted)]

    def sweep(self, wanted: str) -> str:
        """The sweep that `wanted` names, as in `named`; "" if it names a run, or nothing."""
        rows = self._safely(_select, f"SELECT id, sweep FROM runs WHERE {_CURRENT} ORDER BY n, rowid", ())
        if not wanted or any(run == wanted for run, _ in rows):
            return ""
        sweeps = {sweep for _, sweep in rows if sweep}
        hits = {sweep if sweep.startswith(wanted) else run for run, sweep in rows if run.startswith(wanted)}
        return wanted if wanted in sweeps else hits.pop() if len(hits) == 1 and hits <= sweeps else ""

    def runs_on(self, lease: str) -> list[RunRecord]:
        """Every run ever launched on the newest lease of this name, in planning order."""
        return self._runs(f"WHERE id IN (SELECT run FROM tenants {_OF_LEASE}) ORDER BY n", (lease,))

    def times_on(self, lease: str, code: str) -> dict[str, str | None]:
        """For each run of `runs_on`: when it ran, as kept by `show`; None if this `code` kept nothing."""
        query = f"SELECT t.run, s.ran FROM tenants t LEFT JOIN shown s ON s.run = t.run AND s.code = ? {_OF_LEASE}"
        return dict(self._safely(_select, query, (code, lease)))

    def leases(self, open_only: bool = True) -> list[LeaseRecord]:
        """Leases, oldest first: those not yet released, or all."""
        where = "WHERE state NOT IN ('released', 'settled')" if open_only else ""
        return [_lease(row) for row in self._safely(_select, f"{_OF_LEASES} {where} ORDER BY generation", ())]

    def lease(self, name: str) -> LeaseRecord | None:
        """The newest lease with exactly this name, open or not."""
        return next((one for one in reversed(self.leases(open_only=False)) if one.name == name), None)

    def gaps(self) -> tuple[Gap, ...]:
        """Lost or changed parts of the journal, as found at the last check."""
        found = self._safely(known)
        return () if found is None else (*found.chain.gaps, *((found.tail,) if found.tail else ()))

    def closed(self) -> list[tuple[int, int, str, str, str]]:
        """(after, before, mark, site, lease) of each closed gap: for all of the site, or for the one lease."""
        return self._safely(_select, "SELECT after, before, mark, site, lease FROM closed", ())

    def record_status(self, run: str, offset: int, status: Status, keeper: str, payload: str, at_s: float) -> None:
        """Cache the box's last report without journaling it: if the index is deleted, the box reports it again."""
        self._safely(written, lambda db: rows.set_heard(db, run, offset, status, (keeper, payload), at_s))

    def status_texts(self, code: str) -> list[tuple[str, str, str, bool, str | None, str | None]]:
        """(run, its sweep, its lease, whether it will report nothing more, and what `show` keeps of its `status --json`
        row) of all runs, in planning order. The last two are None if this `code` kept none.
        """
        query = (
            f"SELECT r.id, r.sweep, r.lease, r.attempt > 0 AND {_SETTLED}, s.text, s.ran FROM runs r"
            f" LEFT JOIN shown s ON s.run = r.id AND s.code = ? WHERE r.{_CURRENT} ORDER BY r.n, r.rowid"
        )
        return self._safely(_select, query, (code,))

    def show(
        self,
        code: str,
        runs: Sequence[str],
        text_of: Callable[[RunRecord, LeaseRecord | None], tuple[str, str] | None],
    ) -> bool:
        """Keep what `text_of` each of these runs and its newest lease returns: its row's text, and when it ran.

        Both are read in the transaction that keeps them, so the text is never older than they are. False: nothing was
        kept, because the file is locked, full or damaged.
        """

        def write(db: sqlite3.Connection) -> None:
            leases = {one.name: one for one in map(_lease, _select(db, f"{_OF_LEASES} ORDER BY generation", ()))}
            for row in _select(db, f"{_OF_RUNS} {_OF_THESE}", (json.dumps(runs),)):
                record = _run(row)
                texts = text_of(record, leases.get(record.lease))
                if texts is not None:
                    db.execute(
                        "INSERT OR REPLACE INTO shown VALUES (?, ?, ?, ?, ?)", (record.id, record.lease, code, *texts)
                    )

        return self._try(write)

    def shown_sweeps(self) -> dict[str, str]:
        """By its cells' digest: what `status --json` shows of a sweep, as text."""
        return dict(self._safely(_select, "SELECT cells, text FROM shown_sweeps", ()))

    def show_sweep(self, sweep: str, cells: str, text: str) -> None:
        """Keep the text of a sweep while `cells` is still the digest of what its cells show."""
        query = "INSERT OR REPLACE INTO shown_sweeps VALUES (?, ?, ?)"
        self._try(lambda db: db.execute(query, (sweep, cells, text)))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Writes made inside are committed together at the end: a thousand runs cost one wait for the disk.

        Do not wait for anything inside. What the file fails to take, the box reports again.
        """
        ending = "ROLLBACK"
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(sqlite3.Error):
                stack.enter_context(writing(file_of(self._db)))
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                ending = "COMMIT"
            finally:
                with contextlib.suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute(ending)

    def _runs(self, where: str, values: Sequence[Any]) -> list[RunRecord]:
        return [_run(row) for row in self._safely(_select, f"{_OF_RUNS} {where}", values)]

    def _open(self) -> sqlite3.Connection:
        for attempt in (1, 2):
            try:
                return _opened(self._path, self._journal)
            except _BAD as error:
                if attempt == 2 or not _is_damage(error) or not _removed(self._path):
                    break
        return self._in_memory()

    def _in_memory(self) -> sqlite3.Connection:
        return _opened(":memory:", self._journal)

    def _try(self, write: Callable[[sqlite3.Connection], object]) -> bool:
        """A write we can do without; False if the file prevented it."""
        try:
            written(self._db, write)
        except sqlite3.Error:
            return False
        return True

    def _safely(self, act: Callable[..., T], *arguments: Any) -> T:
        """`act(db, ...)`; if the file fails under us (deleted, damaged, full, locked), once more on a new index."""
        try:
            return act(self._db, *arguments)
        except _BAD as error:
            self._db.close()
            if _is_damage(error):
                _removed(self._path)
            self._db = self._open()
        try:
            return act(self._db, *arguments)
        except _BAD:
            self._db.close()
            self._db = self._in_memory()
        return act(self._db, *arguments)


def resolve(wanted: str, valid: Iterable[str], what: str) -> str:
    """The one of `valid` that `wanted` names: exactly, or by a unique beginning. Raises: NotFound, Ambiguous."""
    known = list(valid)
    if wanted in known:
        return wanted
    hits = [name for name in known if wanted and name.startswith(wanted)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        some = ", ".join(hits[:5]) + (", ..." if len(hits) > 5 else "")
        raise Ambiguous(what=what, wanted=wanted, count=len(hits), some=some)
    near = names.nearest(wanted, known)
    hint = f"; the nearest is {near!r}" if near else "" if known else f"; there is no {what} yet"
    raise NotFound(what=what, wanted=wanted, hint=hint)


def _opened(path: str, journal: Journal) -> sqlite3.Connection:
    if path != ":memory:":
        if not is_intact(path):
            raise Damaged("not as it was left")
        with contextlib.suppress(OSError):  # SQLite then says what is wrong
            private.file(path)
    db = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None)
    try:
        # A power cut may cost the last transaction of a cache that is rebuilt from the journal.
        db.execute("PRAGMA synchronous = NORMAL")
        caught_up(db, journal)
    except BaseException:
        db.close()
        raise
    return db


def _is_damage(error: Exception) -> bool:
    """The file itself is bad: not a database, malformed, or without our tables (a plain error in the library)."""
    if not isinstance(error, sqlite3.OperationalError):
        return True
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR  # our own has no code


def _removed(path: str) -> bool:
    try:
        for suffix in ("-journal", "-wal", "-shm", "", ".seal"):
            if os.path.lexists(path + suffix):
                os.unlink(path + suffix)
    except OSError:
        return False
    return True


def _select(db: sqlite3.Connection, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    return db.execute(query, values).fetchall()


_CURRENT = "id NOT LIKE '%@%'"  # no revision
_SETTLED = "sealed > 0 AND sealed >= attempt"
_RUN_TEXTS = ("run", "site", "local", "tether", "status", "receipts", "problems", "failed", "gone", "also")
_SWEEP = ("sweep", "queue")
_RUN_COLUMNS = [
    *"id site_name planned_s attempt token lease phase offset heard_s keeper payload".split(),
    *"pulled_dir manifest_digest seal owed home".split(),
    *_SWEEP,
    *_RUN_TEXTS,
]
_OF_RUNS = f"SELECT {', '.join(_RUN_COLUMNS)} FROM runs"
_OF_LEASE = "WHERE generation = (SELECT max(generation) FROM leases WHERE name = ?)"
_OF_THESE = "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY n, rowid"
_RUN_FIELDS = [field.name for field in fields(RunRecord)]
_LEASE_TEXTS = ("lease", "abandoned", "lost")
_LEASE_COLUMNS = [*"name generation state began_s ended_s spent_micro line".split(), *_LEASE_TEXTS]
_OF_LEASES = f"SELECT {', '.join(_LEASE_COLUMNS)} FROM leases"


def _run(row: tuple[Any, ...]) -> RunRecord:
    return build_frozen(RunRecord, dict(zip(_RUN_FIELDS, row, strict=True)))


def _lease(row: tuple[Any, ...]) -> LeaseRecord:
    cut = len(row) - len(_LEASE_TEXTS)
    return LeaseRecord(*[*row[:cut], dict(zip(_LEASE_TEXTS, row[cut:], strict=True))])
