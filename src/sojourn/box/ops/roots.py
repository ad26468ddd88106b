"""What each run on this box is: its run.json, what was last asked of it, who keeps it. For a client that knows none."""

from __future__ import annotations

import json
import os

from sojourn.box.call import Box
from sojourn.box.ops.queue import waiting
from sojourn.box.run.root import Root, read_fields
from sojourn.box.run.want import last_attempt, pulse
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_LIMIT_BYTES = 4 << 20


def roots(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`after`: only runs whose id comes after this one. Answer: `runs`, sorted by id, and `more`.

    Each: {"id", "root", "run": run.json or {} where it cannot be read, "want", "keeper": {"pid","start","boot_id",...},
    "pulse", "last", "queued": the attempt that waits in its sweep's queue, or 0}.
    """
    after, left = str(request.get("after") or ""), int(request.get("limit_bytes") or _LIMIT_BYTES)
    rows: List[Dict[str, Any]] = []
    queues: Dict[str, Dict[str, int]] = {}
    for run in all_runs(box):
        if run <= after:
            continue
        row = _row(Root(box.under("runs", run)))
        sweep = str(row["run"].get("sweep") or "")
        if sweep and sweep not in queues:
            queues[sweep] = waiting(box, sweep)
        row["queued"] = queues.get(sweep, {}).get(run, 0)
        left -= len(json.dumps(row))
        if left < 0 and rows:
            return {"runs": rows, "more": True}
        rows.append(row)
    return {"runs": rows, "more": False}


def all_runs(box: Box) -> List[str]:
    """Ids of the runs that have a run.json, sorted."""
    try:
        found = os.listdir(box.under("runs"))
    except OSError:
        return []
    return sorted(run for run in found if names.is_name(run) and os.path.isfile(box.under("runs", run, "run.json")))


def _row(root: Root) -> Dict[str, Any]:
    return {
        "id": root.id,
        "root": root.path,
        "run": read_fields(root.run),
        "want": read_fields(root.want),
        "keeper": read_fields(root.keeper),
        "pulse": pulse(root),
        "last": last_attempt(root),
    }
