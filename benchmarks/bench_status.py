"""What `sojourn status` of a thousand finished runs costs: one start, one index, no question to any box."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.protocol import Row, seconds
from sojourn.core.fold import Status, fold, to_plain
from sojourn.core.plain import plain
from sojourn.core.values import Lease, Receipt, Site
from sojourn.store.home import Store
from sojourn.store.journal import Journal
from sojourn.wire import names, units

TITLE = "`sojourn status` of 1,000 finished runs against a bare Python start"
RUNS = 1000
_BEGAN_S = units.unstamp("2026-11-01T00:00:00Z")


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A journal of a thousand runs that succeeded and are home, written record by record as the verbs write them."""
    homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CONFIG", "DATA", "CACHE")}
    # With byte code kept, as an installed program has it, whatever this shell's habit is.
    env = {**os.environ, **homes, "HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    state = folder / "state/sojourn"
    write_history(Journal(str(state / "journal.jsonl")), RUNS)
    Store(str(state)).close()
    script = str(Path(sys.executable).parent / "sojourn")

    def without_index() -> float:
        (state / "index.sqlite").unlink()
        return seconds([script, "status"], cwd=folder, env=env)

    yield {
        "bare": lambda: seconds([sys.executable, "-c", "pass"], cwd=folder, env=env),
        "status": lambda: seconds([script, "status"], cwd=folder, env=env),
        "json": lambda: seconds([script, "status", "--json"], cwd=folder, env=env),
        "rebuild": without_index,
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and how many bare starts they are."""
    bare = medians["bare"]
    return [
        Row("`python -c pass`", bare, "s"),
        Row("`sojourn status`", medians["status"], "s"),
        Row("`sojourn status`, in bare starts", medians["status"] / bare, "x", limit=15, goal=10),
        Row("`sojourn status --json`, in bare starts", medians["json"] / bare, "x", limit=15, goal=10),
        Row("`sojourn status` with the index deleted before", medians["rebuild"], "s"),
    ]


def write_history(journal: Journal, count: int, rate_micro_per_h: int = 0) -> None:
    """`count` runs on one lease: planned, launched, heard to their sealed end, pulled with a receipt."""
    site = plain(Site("local"))
    lease = Lease("local", "local", "unmetered", "local-0", rate_micro_per_h, "USD", _BEGAN_S, "nothing to stop", False)
    journal.append("leased", lease=plain(lease))
    for number in range(count):
        run = f"digits-{number:04d}"
        spec = _spec(run)
        journal.append(
            "planned", run=run, site=site, root="", spec=spec, job_file="/p/sojourn.yaml", workdir="/p", local={}
        )
        journal.append("launching", run=run, attempt=1, token=names.digest(run)[:32], lease="local")
        journal.append("launched", run=run, attempt=1, tether={"launcher": "setsid", "native": "7:1", "facts": {}})
        files = [{"path": "best.pt", "bytes": 5000, "sha256": names.digest([run, 1]), "role": "output"}]
        manifest = names.digest(files)
        said = {"fold": to_plain(fold(_events(number, manifest), Status())), "keeper": "gone", "payload": "gone"}
        journal.append("heard", run=run, offset=20_000, status=said, root=f"/b/runs/{run}")
        journal.append("pulling", run=run)
        receipt = plain(_receipt(run, files[0]))
        journal.append(
            "pulled",
            run=run,
            manifest=manifest,
            dir=f"/h/{run}",
            files=1,
            bytes=5000,
            seconds=0.1,
            owed=1,
            receipts=[receipt],
            missing=[],
            problems=[],
        )


def _spec(run: str) -> dict[str, Any]:
    return {
        "schema": "sojourn/run/v1",
        "run": run,
        "name": run,
        "argv": ["bash", "-eo", "pipefail", "-c", "python train.py --epochs 30\n" * 10],
        "setup": "pip install -r requirements.txt",
        "envs": {"DATA": "/data/digits"},
        "outputs": ["best.pt"],
        "code": names.digest("code"),
        "keeper": "keeper-k.pyz",
        "identity": names.digest(run),
    }


def _events(number: int, manifest: str) -> list[dict[str, Any]]:
    progress = {"step": 900, "total": 900, "epoch": 30, "metrics": {"loss": 0.01, "accuracy": 0.98}}
    told: list[dict[str, Any]] = [
        {"kind": "attempt", "oom_kill": 0},
        {"kind": "started", "pid": 7, "start": 1},
        {"kind": "beat", "log_bytes": 999, "log_age_s": 0.5, "oom_kill": 0, "progress": progress},
        {"kind": "checkpoint", "path": "checkpoints/900-1.pt", "step": 900, "bytes": 5000},
        {"kind": "ended", "state": "succeeded", "rc": 0, "signal": None, "seconds": 60.0},
        {"kind": "sealed", "manifest": manifest, "files": 1, "bytes": 5000, "missing": []},
    ]
    began_s = _BEGAN_S + 100 * number
    return [
        {"v": 1, "seq": n + 1, "at": units.stamp(began_s + 10 * n), "attempt": 1, **event}
        for n, event in enumerate(told)
    ]


def _receipt(run: str, file: dict[str, Any]) -> Receipt:
    proved = ("bytes", "structure", "load", "content")
    facts = {"tensors": 4, "keys": ["model", "optimizer"]}
    return Receipt(
        run, file["path"], f"/h/{run}/best.pt", file["bytes"], file["sha256"], "torch_zip", "torch_zip", proved, facts
    )
