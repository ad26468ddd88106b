"""Journals for tests, made by real appends: runs that were planned, launched, heard to their end, pulled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sojourn.core.fold import Status, fold, to_plain
from sojourn.core.plain import plain
from sojourn.core.values import Lease, Receipt, Site, State
from sojourn.store.home import Store
from sojourn.store.journal import Journal

SITE = plain(Site(name="local"))
SEALED = "a" * 64


def spec(run: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema": "sojourn/run/v1",
        "run": run,
        "name": run,
        "argv": ["bash", "-c", "true"],
        "outputs": ["best.pt"],
        "code": "c" * 64,
        "keeper": "keeper-k.pyz",
        "identity": "i-" + run,
        **changes,
    }


def lease(name: str = "local", **changes: Any) -> dict[str, Any]:
    return plain(Lease(name, name, "unmetered", name, 0, "USD", 1000.0, "nothing to stop", False)) | changes


def events(state: str = "succeeded", attempt: int = 1, seq: int = 0) -> list[dict[str, Any]]:
    at = "2026-11-21T10:0%d:00.000Z"
    told = [
        {"kind": "attempt", "token": attempt},
        {"kind": "started", "pid": 7},
        {
            "kind": "beat",
            "log_bytes": 10,
            "log_age_s": 0.5,
            "progress": {"step": 100, "total": 100, "metrics": {"loss": 0.1}},
        },
        {"kind": "ended", "state": state, "rc": 0 if state == "succeeded" else 1, "signal": None},
        {"kind": "sealed", "manifest": SEALED, "missing": []},
    ]
    return [{"v": 1, "seq": seq + i + 1, "at": at % i, "attempt": attempt, **event} for i, event in enumerate(told)]


def planned(journal: Journal, run: str, **changes: Any) -> None:
    journal.append(
        "planned",
        run=run,
        site=SITE,
        root="",
        spec=spec(run, **changes),
        job_file="/j",
        workdir="/w",
        local={"budget": ""},
    )


def launched(journal: Journal, run: str, attempt: int = 1, on: str = "local") -> None:
    journal.append("launching", run=run, attempt=attempt, token="t", lease=on)
    journal.append("launched", run=run, attempt=attempt, tether={"launcher": "setsid", "native": "7", "facts": {}})


def heard(
    journal: Journal, run: str, status: Status, keeper: str = "gone", payload: str = "gone", offset: int = 900
) -> None:
    said = {"fold": to_plain(status), "keeper": keeper, "payload": payload}
    journal.append("heard", run=run, offset=offset, status=said, root="/base/runs/" + run)


def receipt(run: str, path: str = "best.pt") -> dict[str, Any]:
    return plain(
        Receipt(run, path, "/home/" + path, 12, "s" * 64, "torch_zip", "torch_zip", ("bytes", "structure", "load"))
    )


def pulled(journal: Journal, run: str, **changes: Any) -> None:
    journal.append(
        "pulled",
        **{
            "run": run,
            "manifest": SEALED,
            "dir": "/home",
            "files": 1,
            "bytes": 12,
            "seconds": 0.1,
            "receipts": [receipt(run)],
            "missing": [],
            "problems": [],
            **changes,
        },
    )


def finished(journal: Journal, run: str) -> None:
    planned(journal, run)
    launched(journal, run)
    status = fold(events(), Status())
    assert status.state is State.SUCCEEDED
    heard(journal, run, status)
    pulled(journal, run)


def opened(state: Path) -> Store:
    return Store(str(state), clock=lambda: 1_800_000_000.0)


def filled(state: Path, *runs: str) -> Store:
    store = opened(state)
    store.append("leased", lease=lease())
    for run in runs:
        finished(store.journal, run)
    store.index.catch_up()
    return store
