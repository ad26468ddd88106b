"""What large sweeps cost here: ten thousand cells planned, placed and reconciled; twelve thousand runs told from the
index.
"""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bench_status import write_history
from benchmarks.protocol import LONGEST_S, Desk, Row
from sojourn.core.fold import Status, fold, to_plain
from sojourn.core.plain import plain
from sojourn.core.values import Receipt, Site
from sojourn.store.home import Store
from sojourn.store.journal import Journal
from sojourn.wire import names

TITLE = "large sweeps"
ROUNDS = 3
CELLS, BOXES, MANY = 10_000, 100, 12_500
_AT = "2026-11-01T00:00:00.000Z"

# In a process of its own, whose memory is what it took.
PLAN = """
import json, re, sys, time
from sojourn.core import spread
from sojourn.core.sweep import Cell, Sweep
from sojourn.store.home import Store
from sojourn.verbs.observe.costs import costs_of
from sojourn.verbs.sweep.cells import prepare_sweep
from sojourn.verbs.context import Context
from sojourn.verbs.sweep.reconcile import reconcile
from sojourn.verbs.sweep.request import SweepRequest

began = time.perf_counter()
with Context(Store(sys.argv[1])) as ctx:
    prepared = prepare_sweep(ctx, SweepRequest(sys.argv[2]))
    wanted = {cell.id: spread.Wanted(cell.cell.values, cell.cell.epochs) for cell in prepared.cells}
    costs, _ = costs_of([], wanted)
    placed = spread.place(costs, [spread.Lanes(f"box{n}", 4, 1.0 + n % 3) for n in range(100)])
    Sweep(prepared.name, tuple(Cell(run, box, f"/b/runs/{run}") for run, box in placed.items()))
    planned = time.perf_counter()
    seen = reconcile(ctx, "big")
assert len(placed) == len(seen.of("loaded")) == int(sys.argv[3]), seen.exit_status
done = time.perf_counter()
# ru_maxrss would be that of the process which began this one, where that was larger.
mib = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"plan": planned - began, "reconcile": done - planned, "all": done - began, "mib": mib}))
"""


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """Two users: one with ten thousand cells at home, one with a long history."""
    with mock.patch.object(os, "fsync"):  # what is only set up here need not outlive this machine
        big, many = Desk(folder / "big"), Desk(folder / "many")
        job = _big_sweep(big)
        write_history(Journal(str(many.state / "journal.jsonl")), MANY, rate_micro_per_h=1_000_000)
        Store(str(many.state)).close()

    told: dict[str, float] = {}

    def planned(what: str) -> float:
        """One run tells all four, whichever is asked for first."""
        if what in told:
            return told.pop(what)
        argv = [sys.executable, "-c", PLAN, str(big.state), str(job), str(CELLS)]
        done = subprocess.run(argv, env=big.env, capture_output=True, text=True, check=True, timeout=LONGEST_S)
        told.update(json.loads(done.stdout))
        return told.pop(what)

    yield {
        **{what: functools.partial(planned, what) for what in ("plan", "reconcile", "all", "mib")},
        "index": lambda: many.say("status"),
        "index-json": lambda: many.say("status", "--json"),
        "index-json-first": functools.partial(_first, many),
        "sweep-json": lambda: big.say("status", "--json"),
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """The promises of docs/sweeps.md."""
    return [
        Row(f"{CELLS:,} cells: expand and place on {BOXES} boxes", medians["plan"], "s"),
        Row(f"{CELLS:,} cells: reconcile, all at home", medians["reconcile"], "s"),
        Row(f"{CELLS:,} cells: both", medians["all"], "s", limit=5),
        Row(f"{CELLS:,} cells: both, memory", medians["mib"], "MiB", limit=300),
        Row(f"`status` of {MANY:,} finished runs of one meter, from the index", medians["index"], "s", limit=0.5),
        Row("`status --json` of the same", medians["index-json"], "s", limit=0.5),
        Row("`status --json` of the same, for the first time", medians["index-json-first"], "s"),
        Row(f"`status --json` of {CELLS:,} cells, all at home", medians["sweep-json"], "s"),
    ]


def _first(desk: Desk) -> float:
    """Seconds of `status --json` where the index holds no row of it yet."""
    with closing(sqlite3.connect(desk.state / "index.sqlite", isolation_level=None)) as db:
        db.execute("DELETE FROM shown")
    return desk.say("status", "--json")


def _big_sweep(desk: Desk) -> Path:
    """The job file of a sweep all of whose cells are home, as the records have it. One file stands for all."""
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.cells import prepare_sweep, shared
    from sojourn.verbs.sweep.request import SweepRequest

    job = desk.folder / "sojourn.yaml"
    matrix = {"lr": [n / 1000 for n in range(1, CELLS // 100 + 1)], "seed": list(range(100))}
    told = {"name": "big", "run": "true", "outputs": ["result.json"], "sweep": {"matrix": matrix}}
    job.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in told.items()))
    home = desk.folder / "result.json"
    home.write_text('{"accuracy": 0.5}')
    store = Store(str(desk.state))
    with Context(store) as ctx:
        prepared = prepare_sweep(ctx, SweepRequest(str(job)))
        on_site = prepared.on_site(Site("box0"), keeper="keeper-k.pyz", train="train-t.pyz", now_s=0.0)
        template, rest = shared([{**cell.spec, **on_site, "root": f"/b/runs/{cell.id}"} for cell in prepared.cells])
        cells = [
            {"site": f"box{n % BOXES}", "spec": spec, "local": cell.local()}
            for n, (cell, spec) in enumerate(zip(prepared.cells, rest, strict=True))
        ]
        journal = store.journal
        sites = {f"box{n}": plain(Site(f"box{n}")) for n in range(BOXES)}
        journal.append("swept", sweep="big", template=template, cells=cells, sites=sites, job_file=str(job),
                       workdir=str(desk.folder), local=prepared.local())  # fmt: skip
        asked = [{"run": cell.id, "attempt": 1, "token": ""} for cell in prepared.cells]
        journal.append("queueing", sweep="big", site="box0", cells=asked)
        for cell in prepared.cells:
            _come_home(journal, cell.id, home)
        store.index.catch_up()
    return job


def _come_home(journal: Journal, run: str, home: Path) -> None:
    """It succeeded, was sealed and pulled."""
    manifest = names.digest(run)
    events: list[dict[str, Any]] = [
        {"kind": "attempt"},
        {"kind": "started", "pid": 7, "start": 1},
        {"kind": "ended", "state": "succeeded", "rc": 0, "signal": None, "seconds": 60.0},
        {"kind": "sealed", "manifest": manifest, "files": 1, "bytes": 17, "missing": []},
    ]
    told = [{"v": 1, "seq": n + 1, "at": _AT, "attempt": 1, **event} for n, event in enumerate(events)]
    said = {"fold": to_plain(fold(told, Status())), "keeper": "gone", "payload": "gone"}
    journal.append("heard", run=run, offset=900, status=said, root=f"/b/runs/{run}")
    data = home.read_bytes()
    proved = ("bytes", "structure", "load", "content")
    receipt = Receipt(run, "result.json", str(home), len(data), names.digest(run), "json", "json", proved, {})
    journal.append("pulled", run=run, manifest=manifest, seal=manifest, dir=str(home.parent), files=1, bytes=len(data),
                   seconds=0.1, owed=1, receipts=[plain(receipt)], missing=[], problems=[])  # fmt: skip
