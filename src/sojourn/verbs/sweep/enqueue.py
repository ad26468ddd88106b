"""Cells into the queue of one box, and its keeper started: two calls, whatever their number. Idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sojourn.backends.keeper.client import KeeperRefused
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.launch import COMMAND_S, started, starts_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.sweep import array
from sojourn.verbs.sweep.batch import Batch, deliver
from sojourn.verbs.sweep.cells import shared

AT_ONCE = 250  # cells in one call: a root and its run.json each, with a few fsyncs
CALL_S = 120.0
PROOF_S = 15.0


def enqueue(ctx: Context, batch: Batch) -> tuple[str, ...]:
    """Journal that these cells are asked for, push what the box lacks, put them into its queue in this order, and start
    the queue's keeper; remarks. Cut off anywhere, the same again goes on there.

    Raises: Unreachable, WorldError (name-taken: a cell's name is another run there; nothing was made then).
    """
    if batch.box.scheduler:
        array.submit(ctx, batch)
        return ()
    box, cells = batch.box, batch.cells
    token, ops, blobs = deliver(ctx, batch)
    ctx.say(f"{box.site.name}: queueing {len(cells)} cells")
    for first in range(0, len(cells), AT_ONCE):
        some = cells[first : first + AT_ONCE]
        template, rest = shared([cell.spec for cell in some])
        asked = [{"spec": spec, "attempt": cell.attempt, "token": token} for cell, spec in zip(some, rest, strict=True)]
        ask = {"op": "enqueue", "queue": batch.sweep, "template": template, "cells": asked}
        ask.update(lanes=list(batch.slots.lanes), keeper=box.keeper.file, secrets=dict(batch.secrets))
        ops.append(ask)
        if first + AT_ONCE < len(cells):
            box.answer_all(ops, blobs, timeout_s=CALL_S)
            ops, blobs = [], []
    tether, remarks = _begun(box, batch.sweep, ops, blobs, list(batch.slots.hello["argv"]))
    runs = [cell.run for cell in cells]
    ctx.store.append("queued", sweep=batch.sweep, site=box.site.name, runs=runs, tether=tether)
    return remarks


def _begun(
    box: Box, sweep: str, ops: Sequence[Mapping[str, Any]], blobs: Sequence[bytes], argv: list[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Do the ops and start the queue's keeper, in one call. `argv`: as the box said it; it checks that itself."""
    while True:
        starts = starts_of(box, argv, queue=sweep)
        try:
            answers = box.answer_all([*ops, *starts], blobs, timeout_s=CALL_S + COMMAND_S)
            break
        except KeeperRefused as no:
            if no.code == "command-failed":
                started(box, [no.value], argv)  # raises, in the launcher's own words
            if no.code != "other-argv" or no.value["argv"] == argv:
                raise
            argv = list(no.value["argv"])
    tether, remarks = started(box, [answer.value for answer in answers[-len(starts) :]], argv)
    return asdict(tether), remarks


def proven(ctx: Context, runs: Sequence[str]) -> tuple[str, ...]:
    """Look until the queue of each of these cells is kept, or has nothing left to do, PROOF_S at most; else remarks."""
    deadline_s, pause_s = ctx.now_s() + PROOF_S, 0.1
    while True:
        views = refresh(ctx, [record for record in map(ctx.store.index.run, runs) if record is not None], mend=False)
        lacking = [
            view
            for view in views.values()
            if view.queue and view.queue["keeper"] != "alive" and view.queue["waiting"] + view.queue["living"]
        ]
        if not lacking:
            return ()
        if ctx.now_s() >= deadline_s:
            return tuple(f"{view.record.site_name}: the queue's keeper has not been seen yet" for view in lacking)
        ctx.sleep(pause_s)
        pause_s = min(1.0, pause_s * 2)
