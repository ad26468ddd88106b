"""What each run on this box is: its run.json, the last request, its keeper. For a client that knows none of them."""

from __future__ import annotations

import json

from sojourn.box.call import Box
from sojourn.box.ops.queue import waiting
from sojourn.box.run.root import Root, all_specs, is_placed, names_in, read_fields, spec_fields
from sojourn.box.run.want import last_attempt, pulse
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_LIMIT_BYTES = 4 << 20


def roots(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`after`: only runs whose id follows this one. Answer: `runs`, sorted by id, and `more`.

    Each: {"id", "root", "run": run.json in force, {} if unreadable, "earlier": identities of all earlier ones, "want",
    "keeper": {"pid","start","boot_id",...}, "pulse", "last", "queued": the attempt waiting in its sweep's queue, or in
    that of plain runs, or 0}.
    """
    after, left = str(request.get("after") or ""), int(request.get("limit_bytes") or _LIMIT_BYTES)
    rows: List[Dict[str, Any]] = []
    queues: Dict[str, Dict[str, int]] = {}
    for run in all_runs(box):
        if run <= after:
            continue
        row = _row(Root(box.under("runs", run)))
        queue = str(row["run"].get("sweep") or "") or names.RUNS_QUEUE
        if queue not in queues:
            queues[queue] = waiting(box, queue)
        row["queued"] = queues[queue].get(run, 0)
        left -= len(json.dumps(row))
        if left < 0 and rows:
            return {"runs": rows, "more": True}
        rows.append(row)
    return {"runs": rows, "more": False}


def all_runs(box: Box) -> List[str]:
    """Ids of the runs with a run.json, or whose folder cannot be looked into, sorted. Raises: OSError."""
    return [
        run for run in names_in(box.under("runs")) if names.is_root(run) and is_placed(Root(box.under("runs", run)))
    ]


def _row(root: Root) -> Dict[str, Any]:
    return {
        "id": root.id,
        "root": root.path,
        "run": spec_fields(root),
        "earlier": [str(spec.get("identity")) for spec in all_specs(root)],
        "want": read_fields(root.want),
        "keeper": read_fields(root.keeper),
        "pulse": pulse(root),
        "last": last_attempt(root),
    }
