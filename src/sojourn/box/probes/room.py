"""Bytes and inodes of every relevant mount, as df reports them; each mount in a child, since a dead one hangs."""

from __future__ import annotations

import functools
import os

from sojourn.box.run import places
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import bounded, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

DEADLINE_S = 0.8
BYTES, INODES = "df -Pk", "df -Pi"
_MOUNTS = 24


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """BYTES and INODES. Reserved blocks count as used, as in df: the rest is available to users."""
    rows = places.mount_rows()
    asked = [
        bounded.Question(path, functools.partial(look, path, rows), DEADLINE_S)
        for path in places.wanted(context)[:_MOUNTS]
    ]
    answers = bounded.ask(asked, in_group=True)
    by_point: Dict[str, Dict[str, Any]] = {}
    silent: List[str] = []
    for path, answer in answers.items():
        if answer.why:
            silent.append("df: %s: %s" % (path, answer.detail))
        elif answer.value:
            by_point[answer.value["point"]] = answer.value
    rooms = [by_point[point] for point in sorted(by_point)]
    rc, said = (1, "\n".join(silent)) if silent else (0, "")
    head = "Filesystem     1024-blocks      Used Available Capacity Mounted on"
    kib = [_line(one, one["total_kib"], one["used_kib"], one["avail_kib"]) for one in rooms]
    inodes = [_line(one, one["inodes"], one["used_inodes"], one["free_inodes"]) for one in rooms]
    return {
        BYTES: raw.text("\n".join([head] + kib) + "\n", rc, said),
        INODES: raw.text(
            "\n".join(["Filesystem       Inodes  IUsed    IFree IUse% Mounted on"] + inodes) + "\n", rc, said
        ),
    }


def look(path: str, rows: List[places.Mount]) -> Dict[str, Any] | None:
    """Room of the file system that holds `path`, links followed; None if the path does not exist. May hang."""
    real = places.real(path)
    try:
        s = os.statvfs(real)
    except OSError:
        return None
    mount = places.mount_of(real, rows)
    block = s.f_frsize or s.f_bsize
    return {
        "point": mount.point if mount else real,
        "source": mount.source if mount else "-",
        "total_kib": s.f_blocks * block // 1024,
        "used_kib": (s.f_blocks - s.f_bfree) * block // 1024,
        "avail_kib": s.f_bavail * block // 1024,
        "inodes": s.f_files,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail if s.f_favail < s.f_ffree else s.f_ffree,
        "real": real,
    }


def _line(one: Dict[str, Any], total: int, used: int, free: int) -> str:
    share = "%d%%" % -(-100 * used // (used + free)) if used + free > 0 else "-"
    return "%s %d %d %d %s %s" % (one["source"].replace(" ", "_"), total, used, free, share, one["point"])
