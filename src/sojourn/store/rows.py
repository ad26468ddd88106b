"""Journal records -> rows of the index. One function per kind; kinds of a newer version are skipped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from sojourn.core.fold import Status, from_plain, to_plain
from sojourn.wire import units

Record = Mapping[str, Any]

# Change it whenever a table or the meaning of a column changes: an index of another version is built anew.
SCHEMA_VERSION = 10
TABLES = """
CREATE TABLE runs (
  id TEXT PRIMARY KEY, n INTEGER NOT NULL, site_name TEXT NOT NULL, planned_s REAL NOT NULL, identity TEXT NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0, token TEXT NOT NULL DEFAULT '', lease TEXT NOT NULL DEFAULT '',
  phase TEXT NOT NULL, offset INTEGER NOT NULL DEFAULT 0, heard_s REAL,
  keeper TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL DEFAULT '',
  pulled_dir TEXT NOT NULL DEFAULT '', manifest_digest TEXT NOT NULL DEFAULT '', seal TEXT NOT NULL DEFAULT '',
  owed INTEGER NOT NULL DEFAULT 0, home INTEGER NOT NULL DEFAULT 0,
  sealed INTEGER NOT NULL DEFAULT 0, since TEXT NOT NULL DEFAULT '',
  sweep TEXT NOT NULL DEFAULT '', queue TEXT NOT NULL DEFAULT '',
  run TEXT NOT NULL, site TEXT NOT NULL, local TEXT NOT NULL, tether TEXT NOT NULL DEFAULT 'null',
  status TEXT NOT NULL DEFAULT '{}', receipts TEXT NOT NULL DEFAULT '[]', problems TEXT NOT NULL DEFAULT '[]',
  failed TEXT NOT NULL DEFAULT '[]', gone TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX runs_in_order ON runs (n);
CREATE INDEX runs_by_sweep ON runs (sweep);
CREATE INDEX runs_by_end ON runs (since, sealed, attempt, site_name, phase, id, offset);
CREATE TABLE earlier (
  run TEXT NOT NULL, site_name TEXT NOT NULL, site TEXT NOT NULL, tether TEXT NOT NULL, PRIMARY KEY (run, site_name)
);
CREATE TABLE leases (
  generation INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, began_s REAL NOT NULL, ended_s REAL,
  spent_micro INTEGER, line TEXT NOT NULL DEFAULT '', lease TEXT NOT NULL,
  abandoned TEXT NOT NULL DEFAULT '[]', lost TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX leases_by_name ON leases (name);
CREATE TABLE tenants (generation INTEGER NOT NULL, run TEXT NOT NULL, PRIMARY KEY (generation, run)) WITHOUT ROWID;
CREATE TABLE shown (
  run TEXT PRIMARY KEY, lease TEXT NOT NULL, code TEXT NOT NULL, text TEXT NOT NULL, ran TEXT NOT NULL
);
CREATE TABLE shown_sweeps (sweep TEXT PRIMARY KEY, cells TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE closed (
  after INTEGER NOT NULL, before INTEGER NOT NULL, mark TEXT NOT NULL, site TEXT NOT NULL, lease TEXT NOT NULL
);
CREATE TABLE marks (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
# What `status --json` shows of a run is forgotten with all that is written of the run, or of a lease of its name.
TRIGGERS = [
    f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN DELETE FROM shown WHERE {shown} = {row}.{key}; END"
    for table, key, shown in (("runs", "id", "run"), ("leases", "name", "lease"))
    for event, row in (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD"))
]


# kind -> fields that a record of it must have. Kinds that are not here may have any.
NEEDS = {
    "planned": ("run", "site", "spec"),
    "swept": ("sweep", "template", "cells", "sites"),
    "queueing": ("sweep", "site", "cells"),
    "queued": ("sweep", "site", "runs", "tether"),
    "withdrawn": ("sweep", "site", "runs", "why"),
    "given-up": ("sweep", "site", "runs"),
    "launching": ("run", "attempt"),
    "launched": ("run", "attempt", "tether"),
    "refused": ("run", "attempt"),
    "heard": ("run", "offset", "status"),
    "stopping": ("run", "attempt"),
    "pulling": ("run",),
    "pulled": ("run", "manifest", "dir", "receipts"),
    "cleaning": ("run",),
    "cleaned": ("run",),
    "leasing": ("lease",),
    "not-leased": ("lease",),
    "leased": ("lease",),
    "clearing": ("lease",),
    "releasing": ("lease",),
    "reopened": ("lease",),
    "abandoned": ("lease", "run"),
    "released": ("lease",),
    "settled": ("lease",),
    "gap-closed": ("site", "lease", "gaps"),
}


def apply(db: sqlite3.Connection, record: Record) -> None:
    """Move the rows on by one record. A record that lacks what its kind needs is skipped. Raises: sqlite3.Error."""
    move = _MOVES.get(record["kind"])
    if move is None:
        return
    try:
        move(db, record)
    except (KeyError, TypeError, ValueError):
        # Written by another version or edited by hand; the rest of the journal still counts.
        return


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _planned(db: sqlite3.Connection, r: Record) -> None:
    spec, at_s = r["spec"], units.unstamp(r["at"])
    run = {
        "id": r["run"],
        "site": r["site"]["name"],
        "root": r.get("root", ""),
        "spec": spec,
        "spec_digest": spec["identity"],
        "code_digest": spec["code"],
        "keeper_digest": spec.get("keeper", ""),
        "planned_s": at_s,
    }
    local = {"job_file": r.get("job_file", ""), "workdir": r.get("workdir", ""), **r.get("local", {})}
    kept = db.execute("SELECT identity, site, site_name, tether FROM runs WHERE id = ?", (r["run"],)).fetchone()
    site = _text(r["site"])
    if kept is not None and kept[2] != r["site"]["name"]:
        # Where it was before may still hold something of it.
        db.execute("INSERT OR REPLACE INTO earlier VALUES (?, ?, ?, ?)", (r["run"], kept[2], kept[1], kept[3]))
    if kept is not None and (kept[0], kept[1]) == (spec["identity"], site) and not r.get("again"):
        db.execute("UPDATE runs SET run = ?, local = ? WHERE id = ?", (_text(run), _text(local), r["run"]))
        return
    db.execute(
        "INSERT OR REPLACE INTO runs (id, n, site_name, planned_s, identity, phase, owed, run, site, local, sweep)"
        " VALUES (?, ?, ?, ?, ?, 'planned', ?, ?, ?, ?, ?)",
        (
            r["run"],
            r["n"],
            r["site"]["name"],
            at_s,
            spec["identity"],
            len(spec.get("outputs", ())),
            _text(run),
            site,
            _text(local),
            str(spec.get("sweep") or ""),
        ),
    )


def _swept(db: sqlite3.Connection, r: Record) -> None:
    for cell in r["cells"]:
        spec = {**r["template"], **cell["spec"]}
        local = {**r.get("local", {}), **cell.get("local", {})}
        common = {key: r[key] for key in ("n", "at", "job_file", "workdir") if key in r}
        again = bool(cell.get("again"))  # what its earlier box had of it is lost, or given up
        planned = {**common, "run": spec["run"], "site": r["sites"][cell["site"]], "spec": spec, "local": local}
        _planned(db, {**planned, "again": again})


def _queueing(db: sqlite3.Connection, r: Record) -> None:
    lease = r.get("lease", "")
    for cell in r["cells"]:
        asked = {"run": cell["run"], "attempt": cell["attempt"], "token": cell.get("token", ""), "lease": lease}
        _launching(db, asked)
        # A scheduler's site has no queue of ours: there each cell is a job that it knows by itself.
        queue = "" if r.get("scheduled") else r["sweep"]
        db.execute("UPDATE runs SET phase = 'queueing', queue = ? WHERE id = ?", (queue, cell["run"]))


def _queued(db: sqlite3.Connection, r: Record) -> None:
    for run in r["runs"]:
        tether = {**r["tether"], "native": r["natives"][run]} if r.get("natives") else r["tether"]
        db.execute(
            "UPDATE runs SET phase = 'queued', tether = ? WHERE id = ? AND phase = 'queueing'", (_text(tether), run)
        )


def _withdrawn(db: sqlite3.Connection, r: Record) -> None:
    phase = "moving" if r["why"] == "move" else "withdrawn"
    for run in r["runs"]:
        db.execute(
            "UPDATE runs SET phase = ?, queue = '' WHERE id = ? AND site_name = ? AND queue != ''",
            (phase, run, r["site"]),
        )


def _launching(db: sqlite3.Connection, r: Record) -> None:
    lease = r.get("lease", "")
    db.execute(
        "UPDATE runs SET phase = 'launching', queue = '', attempt = max(attempt, ?), token = ?, lease = ? WHERE id = ?",
        (r["attempt"], r.get("token", ""), lease, r["run"]),
    )
    found = db.execute("SELECT max(generation) FROM leases WHERE name = ?", (lease,)).fetchone()
    if found[0] is not None:
        # A run moved in after all: what was cleared before says nothing about it.
        db.execute(
            "UPDATE leases SET state = 'open' WHERE generation = ? AND state IN ('clearing', 'releasing')", (found[0],)
        )
        db.execute("INSERT OR IGNORE INTO tenants (generation, run) VALUES (?, ?)", (found[0], r["run"]))


def _launched(db: sqlite3.Connection, r: Record) -> None:
    db.execute("UPDATE runs SET phase = 'launched', tether = ? WHERE id = ?", (_text(r["tether"]), r["run"]))


def _refused(db: sqlite3.Connection, r: Record) -> None:
    """The box holds another run under this name, so that nothing of the first attempt is there: it is only planned."""
    db.execute(
        "UPDATE runs SET phase = 'refused', attempt = 0, token = '', lease = '' WHERE id = ? AND attempt = ?"
        " AND attempt = 1 AND phase = 'launching' AND offset = 0",
        (r["run"], r["attempt"]),
    )


def _heard(db: sqlite3.Connection, r: Record) -> None:
    said = r["status"]
    pulses = said.get("keeper", ""), said.get("payload", "")
    set_heard(db, r["run"], r["offset"], from_plain(said["fold"]), pulses, units.unstamp(r["at"]))
    root = r.get("root", "")
    kept = db.execute("SELECT run FROM runs WHERE id = ?", (r["run"],)).fetchone() if root else None
    if kept is not None:
        planned = json.loads(kept[0])
        if planned.get("root") != root:
            db.execute("UPDATE runs SET run = ? WHERE id = ?", (_text({**planned, "root": root}), r["run"]))


def set_heard(
    db: sqlite3.Connection, run: str, offset: int, heard: Status, pulses: tuple[str, str], at_s: float
) -> None:
    """What the box said last: `heard`, the fold up to `offset`, and the pulses of keeper and payload."""
    # The attempt of which nothing more is to be heard, as RunRecord.is_settled has it; 0 where it goes on.
    sealed = heard.attempt if heard.is_sealed and not heard.awaits_judgement else 0
    db.execute(
        "UPDATE runs SET offset = ?, status = ?, keeper = ?, payload = ?, heard_s = ?, sealed = ?, since = ?"
        " WHERE id = ?",
        (offset, _text(to_plain(heard)), *pulses, at_s, sealed, heard.since, run),
    )


def _phase(db: sqlite3.Connection, r: Record) -> None:
    # What was removed from its box stays removed, whatever is asked of it afterwards.
    db.execute("UPDATE runs SET phase = ? WHERE id = ? AND phase != 'cleaned'", (r["kind"], r["run"]))


def _pulled(db: sqlite3.Connection, r: Record) -> None:
    receipts, missing, problems = r.get("receipts", []), r.get("missing", []), r.get("problems", [])
    db.execute(
        "UPDATE runs SET phase = 'pulled', pulled_dir = ?, manifest_digest = ?, seal = ?, owed = ?, home = ?,"
        " receipts = ?, problems = ?, failed = ?, gone = ? WHERE id = ?",
        (
            r["dir"],
            r["manifest"],
            r.get("seal", r["manifest"]),
            r.get("owed", r.get("files", len(receipts)) + len(missing)),
            len(receipts),
            _text(receipts),
            _text([*missing, *problems]),
            _text(r.get("failed", [])),
            _text(r.get("gone", [])),
            r["run"],
        ),
    )


def _leased(db: sqlite3.Connection, r: Record) -> None:
    lease = r["lease"]
    # The same lease journaled twice (a crash between the two) stays one row.
    same = db.execute(
        "SELECT generation, lease, state FROM leases WHERE name = ? AND state NOT IN ('released', 'settled')",
        (lease["name"],),
    ).fetchone()
    is_news = same is not None and (same[2] == "leasing" or bool(lease.get("address")))
    if is_news and json.loads(same[1]).get("token") == lease["token"]:
        # What was only asked for is rented now, or it can be reached now.
        db.execute(
            "UPDATE leases SET lease = ?, began_s = ?, state = CASE state WHEN 'leasing' THEN 'open' ELSE state END"
            " WHERE generation = ?",
            (_text(lease), lease["began_s"], same[0]),
        )
    if same is None:
        db.execute(
            "INSERT INTO leases (generation, name, state, began_s, lease) VALUES (?, ?, 'open', ?, ?)",
            (r["n"], lease["name"], lease["began_s"], _text(lease)),
        )
    # Runs that were on it, where `recover` takes in again a lease whose record was lost.
    for run in r.get("runs", ()):
        db.execute("UPDATE runs SET lease = ? WHERE id = ?", (lease["name"], run))
        generation = r["n"] if same is None else same[0]
        db.execute("INSERT OR IGNORE INTO tenants (generation, run) VALUES (?, ?)", (generation, run))


def _leasing(db: sqlite3.Connection, r: Record) -> None:
    lease = r["lease"]
    db.execute(
        "INSERT INTO leases (generation, name, state, began_s, lease) VALUES (?, ?, 'leasing', ?, ?)",
        (r["n"], lease["name"], lease["began_s"], _text(lease)),
    )


def _not_leased(db: sqlite3.Connection, r: Record) -> None:
    db.execute(
        f"UPDATE leases SET state = 'settled', ended_s = ?, spent_micro = 0, line = ? WHERE {_NEWEST}"
        " AND state = 'leasing'",
        (units.unstamp(r["at"]), r.get("why", ""), r["lease"]),
    )


def _lease_moves(db: sqlite3.Connection, r: Record) -> None:
    db.execute(f"UPDATE leases SET state = ? WHERE {_NEWEST}", (r["kind"], r["lease"]))


def _reopened(db: sqlite3.Connection, r: Record) -> None:
    db.execute(f"UPDATE leases SET state = 'open' WHERE {_NEWEST} AND state = 'releasing'", (r["lease"],))


def _abandoned(db: sqlite3.Connection, r: Record) -> None:
    kept = db.execute(f"SELECT abandoned FROM leases WHERE {_NEWEST}", (r["lease"],)).fetchone()
    if kept is not None:
        given_up = [*json.loads(kept[0]), {"run": r["run"], "what": r.get("what", "")}]
        db.execute(f"UPDATE leases SET abandoned = ? WHERE {_NEWEST}", (_text(given_up), r["lease"]))


def _released(db: sqlite3.Connection, r: Record) -> None:
    db.execute(
        f"UPDATE leases SET state = 'released', ended_s = ?, spent_micro = ?, line = ? WHERE {_NEWEST}",
        (units.unstamp(r["at"]), r.get("spent_micro"), r.get("line", ""), r["lease"]),
    )


def _settled(db: sqlite3.Connection, r: Record) -> None:
    db.execute(
        f"UPDATE leases SET state = 'settled', ended_s = ?, spent_micro = ?, lost = ?, line = ? WHERE {_NEWEST}",
        (units.unstamp(r["at"]), r.get("spent_micro"), _text(r.get("lost", [])), r.get("line", ""), r["lease"]),
    )


def _gap_closed(db: sqlite3.Connection, r: Record) -> None:
    rows = [(int(after), int(before), str(mark), r["site"], r["lease"]) for after, before, mark in r["gaps"]]
    db.executemany("INSERT INTO closed VALUES (?, ?, ?, ?, ?)", rows)


_NEWEST = "generation = (SELECT max(generation) FROM leases WHERE name = ?)"
_MOVES = {
    "planned": _planned,
    "swept": _swept,
    "queueing": _queueing,
    "queued": _queued,
    "withdrawn": _withdrawn,
    "launching": _launching,
    "launched": _launched,
    "refused": _refused,
    "heard": _heard,
    "stopping": _phase,
    "pulling": _phase,
    "pulled": _pulled,
    "cleaned": _phase,
    "leasing": _leasing,
    "not-leased": _not_leased,
    "leased": _leased,
    "clearing": _lease_moves,
    "releasing": _lease_moves,
    "reopened": _reopened,
    "abandoned": _abandoned,
    "released": _released,
    "settled": _settled,
    "gap-closed": _gap_closed,
}
