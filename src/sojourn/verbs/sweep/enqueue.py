"""Cells into the queue of one box, and its keeper started: two calls, whatever their number. Idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sojourn.core.need import Need
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.launch import COMMAND_S, start_with
from sojourn.verbs.launch.push import push
from sojourn.verbs.launch.renting import moving_in
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.sweep.cells import CellRequest, shared

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot

AT_ONCE = 250  # cells in one call: a root and its run.json each, with a few fsyncs
CALL_S = 120.0
PROOF_S = 15.0


def enqueue(
    ctx: Context,
    box: Box,
    sweep: str,
    cells: Sequence[CellRequest],
    *,
    hello: Mapping[str, Any],
    lanes: Sequence[str],
    need: Need,
    trees: Sequence[tuple[str, Snapshot]] = (),
    lacking: frozenset[str] = frozenset(),
    secrets: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Journal that these cells are asked for, push what the box lacks, put them into its queue in this order, and start
    the queue's keeper; remarks. Cut off anywhere, the same again goes on there.

    Raises: Unreachable, WorldError (name-taken: a cell's name is another run there; nothing was made then).
    """
    if box.scheduler:
        from sojourn.verbs.sweep import array

        return array.submit(
            ctx,
            box,
            sweep,
            cells,
            base=str(hello["base"]),
            at_once=len(lanes),
            need=need,
            trees=trees,
            lacking=lacking,
            secrets=secrets or {},
        )
    token = ctx.token()
    listed = [{"run": cell.run, "attempt": cell.attempt, "token": token} for cell in cells]
    with moving_in(ctx, box, need) as lease:
        ctx.store.append("queueing", sweep=sweep, site=box.site.name, lease=lease.name, cells=listed)
    base = str(hello["base"])
    ops, blobs = push(ctx, box, base, trees, lacking)
    if box.keeper.train_file in lacking:
        box.must(box.keeper.put_train(base))
    ctx.say(f"{box.site.name}: queueing {len(cells)} cells")
    for first in range(0, len(cells), AT_ONCE):
        some = cells[first : first + AT_ONCE]
        template, rest = shared([cell.spec for cell in some])
        asked = [{"spec": spec, "attempt": cell.attempt, "token": token} for cell, spec in zip(some, rest, strict=True)]
        ask = {"op": "enqueue", "queue": sweep, "template": template, "cells": asked, "lanes": list(lanes)}
        ask.update(keeper=box.keeper.file, secrets=dict(secrets or {}))
        ops.append(ask)
        if first + AT_ONCE < len(cells):
            box.answer_all(ops, blobs, timeout_s=CALL_S)
            ops, blobs = [], []
    timeout_s = CALL_S + COMMAND_S
    handle, remarks, _ = start_with(box, ops, list(hello["argv"]), blobs=blobs, timeout_s=timeout_s, queue=sweep)
    runs = [cell.run for cell in cells]
    ctx.store.append("queued", sweep=sweep, site=box.site.name, runs=runs, tether=asdict(handle))
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
