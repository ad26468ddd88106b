"""Cells, or a plain run, into a queue of one box, and its keeper started: two calls for any number. Idempotent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sojourn.verbs.context import Context
from sojourn.verbs.launch.launch import COMMAND_S, start_with
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
    ctx.say(f"{box.site.name}: queueing {cells[0].run if len(cells) == 1 else f'{len(cells)} cells'}")
    for first in range(0, len(cells), AT_ONCE):
        some = cells[first : first + AT_ONCE]
        template, rest = shared([cell.spec for cell in some])
        asked = [
            {
                "spec": spec,
                "attempt": cell.attempt,
                "token": token,
                **({"recode": True} if cell.is_recoded else {}),
                **({"cards": dict(cell.cards)} if cell.cards else {}),
            }
            for cell, spec in zip(some, rest, strict=True)
        ]
        ask = {"op": "enqueue", "queue": batch.sweep, "template": template, "cells": asked}
        ask.update(lanes=list(batch.slots.lanes), keeper=box.keeper.file, secrets=dict(batch.secrets))
        ops.append(ask)
        if first + AT_ONCE < len(cells):
            box.answer_all(ops, blobs, timeout_s=CALL_S)
            ops, blobs = [], []
    argv, timeout_s = list(batch.slots.hello["argv"]), CALL_S + COMMAND_S
    handle, remarks, _ = start_with(box, ops, argv, blobs=blobs, timeout_s=timeout_s, queue=batch.sweep)
    runs = [cell.run for cell in cells]
    ctx.store.append("queued", sweep=batch.sweep, site=box.site.name, runs=runs, tether=asdict(handle))
    return remarks


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
