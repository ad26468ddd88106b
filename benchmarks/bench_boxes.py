"""What many boxes cost here: `status` of a thousand living runs on a hundred real boxes, and of ten thousand on up to a
thousand simulated ones.

The real boxes are sshds on loopback of this very machine: both ends of every connection take its processor time, and
there is no distance. Where they cannot be had (root, openssh-server), the table says why instead. A simulated box
answers in this process, after the time that a line takes.
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

from benchmarks.protocol import LONGEST_S, Desk, Row, lab_lacks
from sojourn.core.plain import plain
from sojourn.core.values import Site
from sojourn.store.home import Store
from sojourn.store.journal import Journal
from sojourn.wire import names, units

TITLE = "many boxes"
ROUNDS = 3
BOXES, RUNS = 100, 1_000
FEW, MANY, EACH, LINE_S = 100, 1_000, 10, 0.01
_why_not = ""

# In a process of its own. A box answers as its keeper would, for whatever runs it is asked about.
SIMULATED = """
import io, json, sys, time
from sojourn.backends.keeper.client import Keeper
from sojourn.core.values import Ended, Site
from sojourn.store.home import Store
from sojourn.verbs.observe import status
from sojourn.verbs.context import Box, Context
from sojourn.wire import framing, units

count, each, line_s = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
now = units.stamp(time.time())

class Line:
    def call(self, argv, *, stdin=b"", timeout_s=30.0, limit_bytes=0):
        time.sleep(line_s)
        ((_, request),) = framing.frames(stdin)
        rows, blobs = [], []
        for run, offset in request["runs"].items():
            told = [{"kind": "attempt"}, {"kind": "started"}] + [{"kind": "beat", "log_bytes": n} for n in range(8)]
            lines = [json.dumps({"v": 1, "seq": n + 1, "at": now, "attempt": 1, **one}) for n, one in enumerate(told)]
            blob = ("\\n".join(lines) + "\\n").encode()
            rows.append({"id": run, "offset": offset + len(blob), "more": False, "root": "/b/runs/" + run,
                         "identity": "i-" + run, "attempt": 1, "keeper": "alive", "payload": "alive",
                         "progress": {"step": 5, "total": 99}})
            blobs.append(framing.pack(blob))
        said = framing.pack_json({"ok": True, "runs": rows, "now": now}) + b"".join(blobs)
        return Ended(0, said, b"")

class Parcel:
    def keeper_bytes(): return "keeper-k.pyz", b""

sites = [Site(f"box{n}", "ssh") for n in range(count)]
boxes = {site.name: Box(site, Line(), None, None, Keeper(Line(), site, Parcel)) for site in sites}
began = time.perf_counter()
with Context(Store(sys.argv[1]), boxes=boxes) as ctx:
    runs = [ctx.store.index.run(f"run-{n:05d}") for n in range(count * each)]
    seen = status.look(ctx, runs)
took = time.perf_counter() - began
assert len(seen.rows) == count * each and {row.state.value for row in seen.rows} == {"running"}
print(took)
"""


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A user with a hundred real boxes, where these can be had, and one with a thousand simulated ones."""
    far = Desk(folder / "far")
    with mock.patch.object(os, "fsync"):  # what is only set up here need not outlive this machine
        _spread_over(Journal(str(far.state / "journal.jsonl")), [Site(f"box{n}", "ssh") for n in range(MANY)], EACH)
        Store(str(far.state)).close()

    def simulated(count: int) -> float:
        fresh = folder / "fresh"  # what was heard stays known: each reading begins with the same records
        subprocess.run(["rm", "-rf", str(fresh)], check=True)
        subprocess.run(["cp", "-r", str(far.state), str(fresh)], check=True)
        argv = [sys.executable, "-c", SIMULATED, str(fresh), str(count), str(EACH), str(LINE_S)]
        done = subprocess.run(argv, env=far.env, capture_output=True, text=True, check=True, timeout=LONGEST_S)
        return float(done.stdout)

    measures: dict[str, Callable[[], float]] = {"few": lambda: simulated(FEW), "many": lambda: simulated(MANY)}
    with _boxes(folder / "boxes") as desk:
        if desk is not None:
            measures["boxes"] = lambda: desk.say("status", "--json")
        yield measures


def rows(medians: dict[str, float]) -> list[Row]:
    """The promises of docs/sweeps.md."""
    few, many = medians["few"], medians["many"]
    out = [
        Row(f"one look at {EACH * FEW:,} new runs on {FEW} simulated boxes", few, "s"),
        Row(f"one look at {EACH * MANY:,} new runs on {MANY:,} simulated boxes", many, "s"),
        Row(f"the same, in times of {FEW} boxes: linear is {MANY // FEW}", many / few, "x", limit=1.2 * MANY / FEW),
    ]
    if "boxes" in medians:
        what = f"`status --json` of {RUNS:,} living runs on {BOXES} boxes over ssh"
        return [*out, Row(what, medians["boxes"], "s", limit=3)]
    return [*out, Row(f"a hundred boxes: not measured: {_why_not}", 0.0, "s")]


def _spread_over(journal: Journal, sites: list[Site], each: int) -> None:
    """`each` runs launched on each of these sites, and never heard of since."""
    for number in range(each * len(sites)):
        site, run = sites[number // each], f"run-{number:05d}"
        spec = {"schema": "sojourn/run/v1", "run": run, "name": run, "argv": ["true"], "outputs": ["result.json"],
                "code": names.digest("code"), "keeper": "keeper-k.pyz", "identity": f"i-{run}"}  # fmt: skip
        journal.append("planned", run=run, site=plain(site), root="", spec=spec, job_file="", workdir="", local={})
        journal.append("launching", run=run, attempt=1, token=names.digest(run)[:32], lease="")
        journal.append("launched", run=run, attempt=1, tether={"launcher": "setsid", "native": "7:1", "facts": {}})


@contextmanager
def _boxes(folder: Path) -> Iterator[Desk | None]:
    """A user with a thousand runs on a hundred boxes that answer; None where these cannot be had."""
    global _why_not
    _why_not = lab_lacks()
    if _why_not:
        yield None
        return
    from tests.crash.sweep_box import RealBox, make_keys

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
        _greet(desk)
        desk.say("status", "--json")  # hears what there is
        yield desk
    finally:
        for box in made:
            box.close()
        _end_all(folder)


def _greet(desk: Desk) -> None:
    """Log in at every box and say hello, as `sweep` and `run` do: that brings the keeper there, and its byte code."""
    code = """
from concurrent.futures import ThreadPoolExecutor
from sojourn.store.settings import read_settings, read_site
from sojourn.verbs.context import Context
with Context.open() as ctx, ThreadPoolExecutor(4) as pool:
    boxes = [ctx.box(read_site(name)) for name in read_settings().sites]
    list(pool.map(lambda box: box.answer("hello"), boxes))
"""
    subprocess.run([sys.executable, "-c", code], env=desk.env, cwd=desk.folder, check=True, timeout=600)


def _end_all(home: Path) -> None:
    """End what carries this home: the masters of shared connections."""
    from tests.ending import end_all

    end_all(f"HOME={home}")


def _living(desk: Desk, boxes: list[Any], settings: Path) -> None:
    """Runs that live: their keeper is a process that is there, their last beat was a moment ago."""
    from sojourn.box.system import machine, process
    from sojourn.store.settings import read_settings

    sites = read_settings(str(settings)).sites
    _spread_over(Journal(str(desk.state / "journal.jsonl")), [sites[box.name] for box in boxes], RUNS // BOXES)
    pid = os.getpid()
    keeper = {"pid": pid, "start": process.start_of(pid), "boot_id": machine.boot_id(), "host": machine.host()}
    now = units.stamp(time.time())
    for number in range(RUNS):
        box, run = boxes[number * BOXES // RUNS], f"run-{number:05d}"
        spec = {"schema": "sojourn/run/v1", "run": run, "name": run, "argv": ["true"], "outputs": ["result.json"],
                "code": names.digest("code"), "keeper": "keeper-k.pyz", "identity": f"i-{run}"}  # fmt: skip
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
