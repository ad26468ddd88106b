"""Journal records of leases -> rows of the index. `store.rows` has the tables and the changes of runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from sojourn.core.fold import VANISHED
from sojourn.wire import units

Record = Mapping[str, Any]

_NEWEST = "generation = (SELECT max(generation) FROM leases WHERE name = ?)"


def text_of(value: Any) -> str:
    """JSON without spaces, as stored in columns."""
    return json.dumps(value, separators=(",", ":"))


def _leased(db: sqlite3.Connection, r: Record) -> None:
    lease = r["lease"]
    # A lease journaled twice (a crash between the two) stays one row.
    same = db.execute(
        "SELECT generation, lease, state FROM leases WHERE name = ? AND state NOT IN ('released', 'settled')",
        (lease["name"],),
    ).fetchone()
    is_news = same is not None and (same[2] == "leasing" or bool(lease.get("address")))
    if is_news and json.loads(same[1]).get("token") == lease["token"]:
        # What was requested is now rented, or what was rented is now reachable.
        db.execute(
            "UPDATE leases SET lease = ?, began_s = ?, state = CASE state WHEN 'leasing' THEN 'open' ELSE state END"
            " WHERE generation = ?",
            (text_of(lease), lease["began_s"], same[0]),
        )
    if same is None:
        db.execute(
            "INSERT INTO leases (generation, name, state, began_s, lease) VALUES (?, ?, 'open', ?, ?)",
            (r["n"], lease["name"], lease["began_s"], text_of(lease)),
        )
    # Runs that were on it, when `recover` restores a lease whose record was lost.
    for run in r.get("runs", ()):
        db.execute("UPDATE runs SET lease = ? WHERE id = ?", (lease["name"], run))
        generation = r["n"] if same is None else same[0]
        db.execute("INSERT OR IGNORE INTO tenants (generation, run) VALUES (?, ?)", (generation, run))


def _leasing(db: sqlite3.Connection, r: Record) -> None:
    lease = r["lease"]
    db.execute(
        "INSERT INTO leases (generation, name, state, began_s, lease) VALUES (?, ?, 'leasing', ?, ?)",
        (r["n"], lease["name"], lease["began_s"], text_of(lease)),
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
        given_up = [*json.loads(kept[0]), {"run": r["run"], "what": r.get("what", ""), "digest": r.get("digest", "")}]
        db.execute(f"UPDATE leases SET abandoned = ? WHERE {_NEWEST}", (text_of(given_up), r["lease"]))


def _released(db: sqlite3.Connection, r: Record) -> None:
    db.execute(
        f"UPDATE leases SET state = 'released', ended_s = ?, spent_micro = ?, line = ? WHERE {_NEWEST}",
        (units.unstamp(r["at"]), r.get("spent_micro"), r.get("line", ""), r["lease"]),
    )


def _settled(db: sqlite3.Connection, r: Record) -> None:
    db.execute(
        f"UPDATE leases SET state = 'settled', ended_s = ?, spent_micro = ?, lost = ?, line = ? WHERE {_NEWEST}",
        (units.unstamp(r["at"]), r.get("spent_micro"), text_of(r.get("lost", [])), r.get("line", ""), r["lease"]),
    )
    if r.get("vanished"):  # by its provider's word: so is all that ran there
        db.execute(
            "UPDATE runs SET keeper = ?, payload = ? WHERE lease = ? AND id IN"
            f" (SELECT run FROM tenants WHERE {_NEWEST})",
            (VANISHED, VANISHED, r["lease"], r["lease"]),
        )


def _gap_closed(db: sqlite3.Connection, r: Record) -> None:
    rows = [(int(after), int(before), str(mark), r["site"], r["lease"]) for after, before, mark in r["gaps"]]
    db.executemany("INSERT INTO closed VALUES (?, ?, ?, ?, ?)", rows)


MOVES = {
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
