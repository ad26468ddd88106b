"""The checkpoints in the root, their size and age: newest first."""

from __future__ import annotations

import os
import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

NAME = "checkpoints"
_ROWS = 60


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """NAME: "now EPOCH_S", then "mtime_s bytes name"; a folder counts its files. And checkpoints/latest.json."""
    rows: List[Tuple[float, int, str]] = []
    try:
        entries = list(os.scandir(context.root.checkpoints))
    except OSError as error:
        return {NAME: raw.refused(error)}
    for entry in entries:
        try:
            s = entry.stat()
            size = _bytes_in(entry.path) if entry.is_dir() else s.st_size
        except OSError:
            continue
        rows.append((s.st_mtime, size, entry.name))
    told = ["now %.3f" % time.time()] + ["%.3f %d %s" % row for row in sorted(rows, reverse=True)]
    found = {NAME: raw.lines(told, _ROWS + 1, files=len(rows), bytes=sum(row[1] for row in rows))}
    latest = os.path.join(context.root.checkpoints, "latest.json")
    if os.path.exists(latest):
        found["checkpoints/latest.json"] = raw.read_entry(latest, 4 << 10)
    return found


def _bytes_in(folder: str) -> int:
    total = 0
    for inner in os.scandir(folder):
        total += inner.stat(follow_symlinks=False).st_size
    return total
