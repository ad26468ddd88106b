"""The cells of a sweep counted: by state and site, how far, how long still, what it cost so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sojourn.core.values import Meter, State
from sojourn.verbs.answers import Row, money
from sojourn.verbs.observe.costs import costs_of, wanted_of
from sojourn.verbs.observe.reasons import alike
from sojourn.verbs.observe.view import RunView


def tally(views: Sequence[RunView], rows: Sequence[Row]) -> tuple[dict[str, Any], ...]:
    """One count a sweep, in the order of `rows`; `views` are those of the cells.

    {"id","cells","states":{state: cells},"home","percentage","remaining_s","spent":[money],"unpriced","sites":[the
    same a site, with "site","reach"],"causes":[{"what","cause","why","cells","next"}]}. `remaining_s`: until the last
    slot is free, by what finished and running cells take; null where nothing is known yet. `unpriced`: cells on a
    lease whose rate is not known.
    """
    found = []
    for sweep in dict.fromkeys(row.sweep for row in rows if row.sweep):
        ours = [row for row in rows if row.sweep == sweep]
        left = _seconds([view for view in views if view.record.sweep == sweep], ours)
        sites = []
        for site in dict.fromkeys(row.site for row in ours):
            here = [row for row in ours if row.site == site]
            reach = next((row.reach for row in here if row.reach.ok is False), here[0].reach)
            sites.append({"site": site, **_count(here, _until(here, left)), "reach": reach.as_json()})
        known = [one["remaining_s"] for one in sites]
        longest = None if None in known else max(known, default=0.0)
        found.append({"id": sweep, **_count(ours, longest), "sites": sites, "causes": _causes(ours)})
    return tuple(found)


def _causes(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Cells that ended badly, or without what they owe: those of one cause together, most cells first."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.state.is_final and row.state is not State.SUCCEEDED:
            found.setdefault(alike(row.state.value, row.cause, row.reason), []).append(row)
        elif row.state is State.SUCCEEDED and row.missing:
            found.setdefault(("without", "", ", ".join(row.missing)), []).append(row)
    out = []
    for (what, cause, _), some in sorted(found.items(), key=lambda item: -len(item[1])):
        why = ", ".join(some[0].missing) if what == "without" else some[0].reason
        asks = "logs" if what == "without" else "resume" if what == State.CANCELLED.value else "why"
        following = f"sojourn {asks} {some[0].id}"
        cells = [row.id for row in some]
        out.append({"what": what, "cause": cause or None, "why": why or None, "cells": cells, "next": following})
    return out


def _count(rows: Sequence[Row], remaining_s: float | None) -> dict[str, Any]:
    states: dict[str, int] = {}
    spent: dict[str, int] = {}
    done = 0.0
    for row in rows:
        states[row.state.value] = states.get(row.state.value, 0) + 1
        if row.spent_micro:
            spent[row.currency] = spent.get(row.currency, 0) + row.spent_micro
        done += 100.0 if row.state is State.SUCCEEDED else (row.percentage or 0.0) if row.state.is_alive else 0.0
    return {
        "cells": len(rows),
        "states": states,
        "home": sum(row.is_home for row in rows),
        "percentage": round(done / len(rows), 1),
        "remaining_s": remaining_s,
        "spent": [money(micro, currency) for currency, micro in spent.items()],
        "unpriced": sum(row.spent_micro is None and row.meter is Meter.UNKNOWN for row in rows),
    }


def _seconds(views: Sequence[RunView], rows: Sequence[Row]) -> dict[str, float]:
    """The remaining time of each running or waiting cell, if it can be estimated."""
    alive = {row.id: row for row in rows if row.state.is_alive}
    if not alive:
        return {}
    records = [view.record for view in views]
    costs, fast = costs_of(records, {record.id: wanted_of(record) for record in records if record.id in alive})
    has_finished = any(record.status.state is State.SUCCEEDED and record.status.spent_s for record in records)
    left = {}
    for row in alive.values():
        if row.state is not State.QUEUED and row.remaining_s is not None:
            left[row.id] = row.remaining_s
        elif has_finished:
            left[row.id] = costs[row.id] / fast.get(row.site, 1.0)
    return left


def _until(rows: Sequence[Row], left: dict[str, float]) -> float | None:
    """Seconds until these cells of one site are done, its slots being as many as run now."""
    alive = [row for row in rows if row.state.is_alive]
    if not all(row.id in left for row in alive):
        return None
    running = [left[row.id] for row in alive if row.state is not State.QUEUED]
    whole = sum(left[row.id] for row in alive) / max(1, len(running))
    return round(max([whole, *running]), 1) if alive else 0.0
