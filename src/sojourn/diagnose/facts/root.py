"""What lies in a run's root: checkpoints, half-made files, what takes the room; and the box's clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader


def _checkpoints(probe: Probe) -> Mapping[str, Any]:
    """`now S`, then `mtime_s bytes name`, the newest first; both by the box's clock."""
    now_s, rows = checkpoints(probe.text)
    if now_s is None:
        return {}
    found: dict[str, Any] = {"art.ckpt_total": sum(size for _, size, _ in rows)}
    if rows:
        found["run.ckpt_age_s"] = round(max(0.0, now_s - max(at for at, _, _ in rows)), 3)
    empty = [name for _, size, name in rows if not size and not name.startswith(".") and not name.endswith(".fence")]
    if empty:
        found["art.zero_bytes"] = empty
    return found


def checkpoints(text: str) -> tuple[float | None, list[tuple[float, int, str]]]:
    """(the box's time, rows of mtime, bytes and name) of the listing; what is being written is left out."""
    first, _, rest = text.partition("\n")
    now = re.fullmatch(r"now ([\d.]+)", first.strip())
    rows = []
    for line in rest.splitlines():
        cells = line.split(None, 2)
        if len(cells) == 3 and re.fullmatch(r"[\d.]+", cells[0]) and cells[1].isdigit():
            if not re.search(r"^\.|\.tmp$|\.part$|latest\.json$", cells[2]):
                rows.append((float(cells[0]), int(cells[1]), cells[2]))
    return (float(now.group(1)) if now else None), rows


def _leftovers(probe: Probe) -> Mapping[str, Any]:
    names = [line for line in probe.text.splitlines() if line.strip()]
    return {"disk.tmp_left": names[:50] if names else None}


def _biggest(probe: Probe) -> Mapping[str, Any]:
    """`KIB PATH`, the biggest first; what holds all the others is no answer."""
    rows = [line.split(None, 1) for line in probe.text.splitlines()]
    rows = [row for row in rows if len(row) == 2 and row[0].isdigit()]
    inner = [row for row in rows if not any(other[1].startswith(row[1].rstrip("/") + "/") for other in rows)]
    return {"disk.top_consumer": inner[0][1].strip()} if inner else {}


READS = (
    Reader(r"^checkpoints$", _checkpoints),
    Reader(r"^leftovers$", _leftovers),
    Reader(r"^du -xk", _biggest),
)
