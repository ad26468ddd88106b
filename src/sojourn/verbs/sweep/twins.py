"""A cell that left a box which then answers again: how far each of the two has come, so that the better one stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sojourn.core.fold import Status, fold
from sojourn.core.values import NoAnswer, Site
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.wire import events, units

MOST_QUESTIONS = 100


def begun_there(ctx: Context, site: Site, runs: Sequence[str]) -> dict[str, Status] | NoAnswer:
    """What became of these runs on a box that they have left, by its own events. Raises: WorldError."""
    found: dict[str, Status] = {}
    offsets = dict.fromkeys(runs, 0)
    for _ in range(MOST_QUESTIONS):
        answer = ctx.box(site).ask("since", runs=offsets)
        if isinstance(answer, NoAnswer):
            return answer
        for row, blob in zip(answer.value["runs"], answer.blobs, strict=True):
            status = fold(events.parse(blob)[0], found.get(row["id"], Status()))
            found[row["id"]] = replace(status, attempt=max(status.attempt, row["attempt"]))
        offsets = {row["id"]: row["offset"] for row in answer.value["runs"] if row["more"]}
        if not offsets:
            break
    return found


def reached(status: Status) -> int:
    """The last step it is known to have made; -1 before any."""
    kept = (status.checkpoint or {}).get("step")
    return max(-1 if step is None else int(step) for step in (status.step, kept))


def as_json(site: str, status: Status) -> Mapping[str, Any]:
    """How far one of the two has come."""
    return {
        "site": site,
        "state": status.state.value,
        "step": None if reached(status) < 0 else reached(status),
        "checkpoint": (status.checkpoint or {}).get("path") or None,
    }


def in_words(status: Status, now_s: float) -> str:
    """Its step, and the age and name of its newest checkpoint."""
    step = reached(status)
    words = [f"{status.state.value} at step {step}" if step >= 0 else f"{status.state.value}, no step known"]
    if status.checkpoint:
        age = ""
        if at := str(status.checkpoint.get("at") or ""):
            age = f", {units.say_seconds(max(0.0, now_s - units.unstamp(at)))} old"
        words.append(f"checkpoint {status.checkpoint.get('path')}{age}")
    return ", ".join(words)


def given_up(record: RunRecord, now_s: float) -> str:
    """What a cell loses with its box, as last heard: step, age and files."""
    home = [receipt.path for receipt in record.receipts]
    rest = [glob for glob in record.outputs if glob not in home]
    files = f"; not home from there: {', '.join(rest)}" if rest and not record.is_home else ""
    heard = (
        "" if record.heard_s is None else f" when last heard {units.say_seconds(max(0.0, now_s - record.heard_s))} ago"
    )
    return f"{record.id} on {record.site_name} is given up: {in_words(record.heard, now_s)}{heard}{files}"
