"""Journal records -> rows of the index. One function per kind; kinds of a newer version are skipped."""

from __future__ import annotations

import json
import posixpath
import sqlite3
from collections.abc import Mapping
from typing import Any

from sojourn.core.fold import Status, from_plain, to_plain
from sojourn.store import lease_rows
from sojourn.store.lease_rows import text_of as _text
from sojourn.wire import units

Record = Mapping[str, Any]

# Increase it when a table or a column's meaning changes: an index of another version is rebuilt.
SCHEMA_VERSION = 12
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
  failed TEXT NOT NULL DEFAULT '[]', gone TEXT NOT NULL DEFAULT '[]', also TEXT NOT NULL DEFAULT '[]'
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
# A run's `status --json` row is forgotten with every write about the run, or about a lease with its name.
TRIGGERS = [
    f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN DELETE FROM shown WHERE {shown} = {row}.{key}; END"
    for table, key, shown in (("runs", "id", "run"), ("leases", "name", "lease"))
    for event, row in (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD"))
]


# kind -> fields that its records must have. Kinds not listed may have any.
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
    "revised": ("run", "to"),
    "recoded": ("template", "cells"),
    "heard": ("run", "offset", "status"),
    "stopping": ("run", "attempt"),
    "naming": ("run", "paths"),
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
    """Apply one record to the rows. A record without the fields its kind needs is skipped. Raises: sqlite3.Error."""
    move = _MOVES.get(record["kind"])
    if move is None:
        return
    try:
        move(db, record)
    except (KeyError, TypeError, ValueError):
        # Written by another version or edited by hand; the rest of the journal still counts.
        return


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
        # Its earlier place may still hold something of it.
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
        again = bool(cell.get("again"))  # what its earlier box held of it is lost, or given up
        planned = {**common, "run": spec["run"], "site": r["sites"][cell["site"]], "spec": spec, "local": local}
        _planned(db, {**planned, "again": again})


def _queueing(db: sqlite3.Connection, r: Record) -> None:
    lease = r.get("lease", "")
    recoded = [cell["spec"] for cell in r["cells"] if cell.get("spec")]
    _recoded(db, {"template": {}, "cells": recoded})
    for cell in r["cells"]:
        asked = {"run": cell["run"], "attempt": cell["attempt"], "token": cell.get("token", ""), "lease": lease}
        _launching(db, asked)
        # A scheduler's site has no queue of ours: there each cell is a separate job.
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
        # A run moved in after all: an earlier clearance says nothing about it.
        db.execute(
            "UPDATE leases SET state = 'open' WHERE generation = ? AND state IN ('clearing', 'releasing')", (found[0],)
        )
        db.execute("INSERT OR IGNORE INTO tenants (generation, run) VALUES (?, ?)", (found[0], r["run"]))


def _launched(db: sqlite3.Connection, r: Record) -> None:
    db.execute("UPDATE runs SET phase = 'launched', tether = ? WHERE id = ?", (_text(r["tether"]), r["run"]))


def _refused(db: sqlite3.Connection, r: Record) -> None:
    """The box holds another run under this name, so nothing of the first attempt exists: it is only planned."""
    db.execute(
        "UPDATE runs SET phase = 'refused', attempt = 0, token = '', lease = '' WHERE id = ? AND attempt = ?"
        " AND attempt = coalesce(json_extract(run, '$.spec.first'), 1) AND phase = 'launching' AND offset = 0",
        (r["run"], r["attempt"]),
    )


def _revised(db: sqlite3.Connection, r: Record) -> None:
    """From now on the run is a revision in all that is known about it: its name belongs to another run."""
    old, new = r["run"], r["to"]
    kept = db.execute("SELECT run, receipts FROM runs WHERE id = ?", (old,)).fetchone()
    if kept is None:
        return
    run, receipts = json.loads(kept[0]), [{**receipt, "run": new} for receipt in json.loads(kept[1])]
    run.update(id=new, root=posixpath.join(posixpath.dirname(run["root"]), new) if run["root"] else "")
    db.execute(
        "UPDATE runs SET id = ?, run = ?, receipts = ?, attempt = max(attempt, ?), queue = '' WHERE id = ?",
        (new, _text(run), _text(receipts), r.get("last", 0), old),
    )
    db.execute("UPDATE tenants SET run = ? WHERE run = ?", (new, old))
    db.execute("UPDATE earlier SET run = ? WHERE run = ?", (new, old))
    for generation, abandoned in db.execute("SELECT generation, abandoned FROM leases").fetchall():
        given_up = [{**one, "run": new} if one["run"] == old else one for one in json.loads(abandoned)]
        db.execute("UPDATE leases SET abandoned = ? WHERE generation = ?", (_text(given_up), generation))


def _recoded(db: sqlite3.Connection, r: Record) -> None:
    """From its next attempt on, each of these runs has another specification but stays the same run."""
    for cell in r["cells"]:
        spec = {**r["template"], **cell}
        kept = db.execute("SELECT run FROM runs WHERE id = ?", (spec["run"],)).fetchone()
        if kept is None:
            continue
        run = json.loads(kept[0])
        before = [one for one in (*run.get("earlier", ()), run["spec_digest"]) if one != spec["identity"]]
        run.update(spec=spec, spec_digest=spec["identity"], code_digest=spec["code"], earlier=before)
        run["keeper_digest"] = spec.get("keeper", "")
        db.execute("UPDATE runs SET run = ?, identity = ? WHERE id = ?", (_text(run), spec["identity"], spec["run"]))


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
    """The box's last report: `heard`, the fold up to `offset`, and the pulses of keeper and payload."""
    # The attempt that will report nothing more, as in RunRecord.is_settled; 0 if more may come.
    sealed = heard.attempt if heard.is_sealed and not heard.awaits_judgement else 0
    db.execute(
        "UPDATE runs SET offset = ?, status = ?, keeper = ?, payload = ?, heard_s = ?, sealed = ?, since = ?"
        " WHERE id = ?",
        (offset, _text(to_plain(heard)), *pulses, at_s, sealed, heard.since, run),
    )


def _phase(db: sqlite3.Connection, r: Record) -> None:
    # What was removed from its box stays removed, whatever is requested later.
    db.execute("UPDATE runs SET phase = ? WHERE id = ? AND phase != 'cleaned'", (r["kind"], r["run"]))


def _naming(db: sqlite3.Connection, r: Record) -> None:
    kept = db.execute("SELECT also FROM runs WHERE id = ?", (r["run"],)).fetchone()
    if kept is not None:
        also = list(dict.fromkeys([*json.loads(kept[0]), *map(str, r["paths"])]))
        db.execute("UPDATE runs SET also = ? WHERE id = ?", (_text(also), r["run"]))


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


_MOVES = {
    "planned": _planned,
    "swept": _swept,
    "queueing": _queueing,
    "queued": _queued,
    "withdrawn": _withdrawn,
    "launching": _launching,
    "launched": _launched,
    "refused": _refused,
    "revised": _revised,
    "recoded": _recoded,
    "heard": _heard,
    "stopping": _phase,
    "naming": _naming,
    "pulling": _phase,
    "pulled": _pulled,
    "cleaned": _phase,
    **lease_rows.MOVES,
}
