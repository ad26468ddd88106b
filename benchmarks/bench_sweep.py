"""What large sweeps cost here: ten thousand cells planned, placed and reconciled; twelve thousand runs told from the
index; a hundred real boxes asked about a thousand living runs.

The boxes are sshds on loopback of this very machine: both ends of every connection take its processor time, and there
is no distance. Where they cannot be had (root, openssh-server), the table says why instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bench_status import write_history
from benchmarks.protocol import LONGEST_S, Row, seconds
from sojourn.core.fold import Status, fold, to_plain
from sojourn.core.plain import plain
from sojourn.core.values import Receipt, Site
from sojourn.store.home import Store
from sojourn.store.journal import Journal
from sojourn.wire import names, units

TITLE = "large sweeps"
ROUNDS = 3
CELLS, BOXES, RUNS, MANY = 10_000, 100, 1_000, 12_500
_AT = "2026-11-01T00:00:00.000Z"
_why_not = ""

# In a process of its own, whose memory is what it took.
PLAN = """
import json, resource, sys, time
from sojourn.core import spread
from sojourn.core.sweep import Cell, Sweep
from sojourn.store.home import Store
from sojourn.verbs.cells import costs_of, prepare_sweep
from sojourn.verbs.context import Context
from sojourn.verbs.reconcile import reconcile

began = time.perf_counter()
with Context(Store(sys.argv[1])) as ctx:
    prepared = prepare_sweep(ctx, sys.argv[2], {})
    wanted = {cell.id: spread.Wanted(cell.cell.values, cell.cell.epochs) for cell in prepared.cells}
    costs, _ = costs_of([], wanted)
    placed = spread.place(costs, [spread.Lanes(f"box{n}", 4, 1.0 + n % 3) for n in range(100)])
    Sweep(prepared.name, tuple(Cell(run, box, f"/b/runs/{run}") for run, box in placed.items()))
    planned = time.perf_counter()
    seen = reconcile(ctx, "big")
assert len(placed) == len(seen.of("loaded")) == int(sys.argv[3]), seen.exit_status
done = time.perf_counter()
mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"plan": planned - began, "reconcile": done - planned, "all": done - began, "mib": mib}))
"""


class Desk:
    """A user with private records in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state/sojourn"
        self.state.mkdir(parents=True)
        homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CONFIG", "DATA", "CACHE")}
        self.env = {**os.environ, **homes, "HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # with byte code kept, as an installed program has it
        self.env["XDG_RUNTIME_DIR"] = str(folder)
        self.sojourn = str(Path(sys.executable).parent / "sojourn")

    def say(self, *words: str) -> float:
        """Seconds of one command."""
        return seconds([self.sojourn, *words], cwd=self.folder, env=self.env)


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """Three users: one with ten thousand cells at home, one with a long history, one with a hundred boxes."""
    with mock.patch.object(os, "fsync"):  # what is only set up here need not outlive this machine
        big, many = Desk(folder / "big"), Desk(folder / "many")
        job = _big_sweep(big)
        write_history(Journal(str(many.state / "journal.jsonl")), MANY)
        Store(str(many.state)).close()

    told: dict[str, float] = {}

    def planned() -> float:
        argv = [sys.executable, "-c", PLAN, str(big.state), str(job), str(CELLS)]
        done = subprocess.run(argv, env=big.env, capture_output=True, text=True, check=True, timeout=LONGEST_S)
        told.update(json.loads(done.stdout))
        return told["plan"]

    measures: dict[str, Callable[[], float]] = {
        "plan": planned,
        "reconcile": lambda: told["reconcile"],
        "all": lambda: told["all"],
        "mib": lambda: told["mib"],
        "index": lambda: many.say("status"),
        "index-json": lambda: many.say("status", "--json"),
    }
    with _boxes(folder / "boxes") as desk:
        if desk is not None:
            measures["boxes"] = lambda: desk.say("status", "--json")
        yield measures


def rows(medians: dict[str, float]) -> list[Row]:
    """The promises of docs/sweeps.md."""
    out = [
        Row(f"{CELLS:,} cells: expand and place on {BOXES} boxes", medians["plan"], "s"),
        Row(f"{CELLS:,} cells: reconcile, all at home", medians["reconcile"], "s"),
        Row(f"{CELLS:,} cells: both", medians["all"], "s", limit=5),
        Row(f"{CELLS:,} cells: both, memory", medians["mib"], "MiB", limit=300),
        Row(f"`status` of {MANY:,} finished runs, from the index", medians["index"], "s", limit=0.5),
        Row("`status --json` of the same", medians["index-json"], "s"),
    ]
    if "boxes" in medians:
        what = f"`status --json` of {RUNS:,} living runs on {BOXES} boxes over ssh"
        return [*out, Row(what, medians["boxes"], "s", limit=3)]
    return [*out, Row(f"a hundred boxes: not measured: {_why_not}", 0.0, "s")]


def _big_sweep(desk: Desk) -> Path:
    """The job file of a sweep all of whose cells are home, as the records have it. One file stands for all."""
    from sojourn.verbs.cells import prepare_sweep, shared
    from sojourn.verbs.context import Context

    job = desk.folder / "sojourn.yaml"
    matrix = {"lr": [n / 1000 for n in range(1, CELLS // 100 + 1)], "seed": list(range(100))}
    told = {"name": "big", "run": "true", "outputs": ["result.json"], "sweep": {"matrix": matrix}}
    job.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in told.items()))
    home = desk.folder / "result.json"
    home.write_text('{"accuracy": 0.5}')
    store = Store(str(desk.state))
    with Context(store) as ctx:
        prepared = prepare_sweep(ctx, str(job), {})
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


@contextmanager
def _boxes(folder: Path) -> Iterator[Desk | None]:
    """A user with a thousand runs on a hundred boxes that answer; None where these cannot be had."""
    global _why_not
    try:
        from tests.crash.sweep_box import RealBox, make_keys
        from tests.lab import lab
    except ImportError as error:
        _why_not = str(error)
    else:
        _why_not = lab.missing()
    if _why_not:
        yield None
        return
    desk = Desk(folder)
    make_keys(folder / "keys")
    made: list[RealBox] = []
    try:
        for number in range(BOXES):
            made.append(RealBox(f"box{number}", folder, folder, folder / "keys"))
        settings = folder / "config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("".join(box.settings() for box in made))
        with mock.patch.object(os, "fsync"):
            _living(desk, made, settings)
        desk.say("status", "--json")  # logs in, brings the keepers there, hears what there is
        yield desk
    finally:
        for box in made:
            box.close()
        _end_all(folder)


def _end_all(home: Path) -> None:
    """End what carries this home: the masters of shared connections."""
    from tests.spine.conftest import environment, processes

    for pid in processes():
        if f"HOME={home}".encode() in environment(pid):
            os.kill(pid, 9)


def _living(desk: Desk, boxes: list[Any], settings: Path) -> None:
    """Runs that live: their keeper is a process that is there, their last beat was a moment ago."""
    from sojourn.box.probes import machine, process
    from sojourn.store.settings import read_settings

    sites = read_settings(str(settings)).sites
    journal = Journal(str(desk.state / "journal.jsonl"))
    pid = os.getpid()
    keeper = {"pid": pid, "start": process.start_of(pid), "boot_id": machine.boot_id(), "host": machine.host()}
    now = units.stamp(time.time())
    for number in range(RUNS):
        box, run = boxes[number % BOXES], f"run-{number:04d}"
        identity = names.digest(run)
        spec = {"schema": "sojourn/run/v1", "run": run, "name": run, "argv": ["true"], "outputs": ["result.json"],
                "code": names.digest("code"), "keeper": "keeper-k.pyz", "identity": identity}  # fmt: skip
        root = box.disk / "runs" / run
        (root / "attempts/1").mkdir(parents=True)
        (root / "logs").mkdir()
        (root / "run.json").write_text(json.dumps(spec))
        (root / "keeper.json").write_text(json.dumps(keeper))
        told: list[dict[str, Any]] = [{"kind": "attempt"}, {"kind": "started", "pid": 7, "start": 1}]
        told += [
            {"kind": "beat", "log_bytes": n, "log_age_s": 0.5, "progress": {"step": n, "total": 99}} for n in range(9)
        ]
        lines = [json.dumps({"v": 1, "seq": n + 1, "at": now, "attempt": 1, **event}) for n, event in enumerate(told)]
        (root / "events.jsonl").write_text("\n".join(lines) + "\n")
        site = plain(sites[box.name])
        journal.append("planned", run=run, site=site, root=f"{box.base}/runs/{run}", spec=spec, job_file="",
                       workdir="", local={})  # fmt: skip
        journal.append("launching", run=run, attempt=1, token=identity[:32], lease="")
        journal.append("launched", run=run, attempt=1, tether={"launcher": "setsid", "native": "7:1", "facts": {}})
