"""The contents of /dev/shm: batches of DataLoader workers, and leftovers of ended ones."""

from __future__ import annotations

import os

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

_FOLDER = "/dev/shm"
_ROWS = 20


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`ls /dev/shm`: "bytes uid name", the biggest; with their number and total bytes."""
    rows: List[Tuple[int, int, str]] = []
    try:
        for entry in os.scandir(_FOLDER):
            s = entry.stat(follow_symlinks=False)
            rows.append((s.st_blocks * 512, s.st_uid, entry.name))
    except OSError as error:
        return {"ls /dev/shm": raw.refused(error)}
    told = ["%d %d %s" % row for row in sorted(rows, reverse=True)]
    return {"ls /dev/shm": raw.lines(told, _ROWS, files=len(rows), bytes=sum(row[0] for row in rows))}
