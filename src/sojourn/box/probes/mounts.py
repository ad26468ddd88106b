"""Mounts and their options: real file systems, and every mount that holds part of the run."""

from __future__ import annotations

from sojourn.box.run import places
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_OPTIONS = 300  # of an overlay's layers the rest adds nothing
_ROWS = 150


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """mountinfo, without the kernel's own file systems and with very long options cut."""
    rows = [row for row in places.mount_rows() if row.kind not in places.UNREAL or row.point == "/dev/shm"]
    lines = [row.line if len(row.line) <= 2 * _OPTIONS else row.line[:_OPTIONS] + "..." for row in rows]
    return {"mountinfo": raw.lines(lines, _ROWS)}
