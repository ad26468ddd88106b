"""What this client has on record of a run, as probes of an evidence document: platform, lease, last pull, sweep.

Of a lease only what conditions speak of is told: evidence is shown to others. Nobody is asked, but for a cell that was
moved: the box that it was taken from.
"""

from __future__ import annotations

import json
from typing import Any

from sojourn.core.need import GIB
from sojourn.store.catalog import UnknownPlatform, platform
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.context import Context

_GB = 10**9
_UNSEEN = ("unmetered", "by_hand")


def on_record(ctx: Context, record: RunRecord, attempt: int = 0) -> dict[str, Any]:
    """Probes {"platform", "lease", "pull", "sweep"}, those that there are. `attempt`: the one that is judged, 0 for the
    newest: of an earlier one neither its lease nor the last pull says anything."""
    lease = ctx.store.index.lease(record.lease) if record.lease else None
    found = {"platform": _platform(record, lease), "sweep": _sweep(ctx, record)}
    if attempt in (0, record.attempt):
        found.update(lease=lease_probe(ctx, lease), pull=_pull(record))
    return {name: {"rc": 0, "stdout": json.dumps(told, ensure_ascii=False)} for name, told in found.items() if told}


def _platform(record: RunRecord, lease: LeaseRecord | None) -> dict[str, Any]:
    site, path = record.site, record.run.root
    try:
        facts = platform(site.platform)
    except UnknownPlatform:
        return {}
    is_own = "stop" in site.options or "stop_is_final" in site.options  # its user says what stopping does
    words = {True: "yes", False: "no", None: "unknown"}
    tiers = [
        {"name": tier.name, "place": place, "stop": words[tier.stop], "destroy": words[tier.destroy]}
        for place, tier in (() if is_own or not path else facts.tiers_above(path))
    ]
    return {
        "platform": facts.name,
        "is_final": facts.stop_is_final if lease is None else lease.lease.is_final,
        "path": path,
        "tiers": tiers,
    }


def lease_probe(ctx: Context, record: LeaseRecord | None) -> dict[str, Any]:
    """What is on record of a rented machine; {} for one of which nobody but its user says what became of it.

    `stopped_s`: seconds since it was released; `egress`: price of a GB of traffic out, in the lease's currency.
    """
    if record is None or record.lease.provider in _UNSEEN:
        return {}
    facts = record.lease.facts
    price = facts.get("egress_micro_per_gib")
    return {
        "state": record.state,
        "was_kept": record.was_kept,
        "stopped_s": None if record.ended_s is None else max(0.0, ctx.now_s() - record.ended_s),
        "is_spot": facts.get("is_spot"),
        "egress": round(price * _GB / GIB / 1e6, 6) if isinstance(price, (int, float)) else None,
    }


def _pull(record: RunRecord) -> dict[str, Any]:
    if not record.is_pulled:
        return {}
    told = [str(one).rpartition(": ") for one in record.problems]
    return {
        "files": record.owed,
        "problems": {path or word: word if path else "missing" for path, _, word in told},
        "gone": [str(one.get("path")) for one in record.gone],
        "proved": [list(one.proved) for one in record.receipts],
        "is_done": record.status.state.value == "succeeded",
    }


def _sweep(ctx: Context, record: RunRecord) -> dict[str, Any]:
    cells = ctx.store.index.cells(record.sweep) if record.sweep else []
    if not cells:
        return {}
    told: dict[str, Any] = {"cells": len(cells), "started": sum(cell.heard.attempt > 0 for cell in cells)}
    if any(run == record.id for run, _, _ in ctx.store.index.earlier(record.sweep)):  # it was moved
        from sojourn.verbs.sweep.reconcile import begun_twice

        twice, silent = begun_twice(ctx, record.sweep, record.id)
        if twice or not silent:
            told["is_twice"] = bool(twice)
    return told
