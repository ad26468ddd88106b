"""Cells of a sweep submitted to a site's scheduler as an array; each of them is an ordinary run.

There is no queue of ours on such a site: each cell's keeper starts with its task, wherever the scheduler puts it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.core.ports import ArrayTask, Handle, LaunchRequest
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.after import awaited
from sojourn.verbs.launch.launch import write_s
from sojourn.verbs.sweep.batch import Batch, CellRequest, deliver

AT_ONCE = 100  # cells that are placed in one call
CALL_S = 120.0


def submit(ctx: Context, batch: Batch) -> None:
    """Journal that these cells are asked for, push what the site lacks, place their roots, and submit them.

    As many run at a time as there are lanes, 0 = as it was for this sweep before. Cut off anywhere, the same again goes
    on there: a cell that was submitted for this attempt is not submitted twice.
    Raises: NeverReady, Unreachable, WorldError (name-taken, or the scheduler's own refusal).
    """
    box, cells = batch.box, batch.cells
    after = awaited(ctx, cells[0].spec, box.site.name)
    token, ops, blobs = deliver(ctx, batch)
    ctx.say(f"{box.site.name}: submitting {len(cells)} cells")
    parts: dict[tuple[str, ...], list[ArrayTask]] = {}
    for first in range(0, len(cells), AT_ONCE):
        some = cells[first : first + AT_ONCE]
        ops += [_place(cell, token, batch.secrets) for cell in some]
        for cell, answer in zip(some, box.answer_all(ops, blobs, timeout_s=CALL_S)[-len(some) :], strict=True):
            *argv, root = answer.value["argv"]
            parts.setdefault(tuple(argv), []).append(ArrayTask(root, cell.attempt))
        ops, blobs = [], []
    known = map(ctx.store.index.run, (cell.run for cell in cells))
    order = LaunchRequest(cells[0].spec, max(write_s(record) for record in known if record is not None), after)
    for argv, roots in parts.items():  # by the keeper that they were planned with: mostly one
        home = posixpath.join(batch.base, "queues", batch.sweep, "arrays")
        handles = _submitted(box, argv, home, roots, order, batch.slots.limit)
        natives = {posixpath.basename(one.root): handle.native for one, handle in zip(roots, handles, strict=True)}
        handle = {"launcher": box.site.launcher, "native": "", "facts": {}}
        ctx.store.append(
            "queued", sweep=batch.sweep, site=box.site.name, runs=list(natives), tether=handle, natives=natives
        )


def _submitted(
    box: Box, argv: Sequence[str], home: str, roots: Sequence[ArrayTask], order: LaunchRequest, at_once: int
) -> Sequence[Handle]:
    """All as an array; one after another where the scheduler has none, and then it counts who runs at once itself."""
    if box.batch:
        return box.must(box.batch.start_all(box.place, argv, home, roots, order, at_once))
    return [box.must(box.launcher.start(box.place, [*argv, one.root], one.root, order)) for one in roots]


def _place(cell: CellRequest, token: str, secrets: Mapping[str, str]) -> dict[str, Any]:
    want = {"attempt": cell.attempt, "by": "run", "token": token}
    if cell.is_recoded:
        return {"op": "want", "run": cell.run, "spec": cell.spec, **want, "secrets": dict(secrets)}
    return {"op": "place", "run": cell.spec, "want": want, "secrets": dict(secrets)}
