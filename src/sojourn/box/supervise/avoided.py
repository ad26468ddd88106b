"""Machines of a cluster whose own fault stopped a run of this base: requests for a machine avoid them.

One small file each in BASE/avoid: the expiry in seconds since 1970, then the problem. The submitter reads it with a
shell. Faults may be repaired, so no machine is avoided for ever.
"""

from __future__ import annotations

import os
import re
import time

from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

FOR_S = 24 * 3600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BYTES = 600


def add(base: str, node: str, why: str, now_s: float) -> None:
    """Remember a machine by its scheduler's name for it. Raises: OSError."""
    if _NAME.fullmatch(node):
        os.makedirs(os.path.join(base, "avoid"), exist_ok=True)
        line = " ".join(why.split())[:_BYTES]
        atomic.write(os.path.join(base, "avoid", node), ("%d\n%s\n" % (now_s + FOR_S, line)).encode())


def told(base: str, now_s: float | None = None) -> List[Dict[str, Any]]:
    """{"node","why","left_s"} of each machine still avoided. Raises: nothing."""
    folder, rows = os.path.join(base, "avoid"), []
    now_s = time.time() if now_s is None else now_s
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        try:
            with open(os.path.join(folder, name), errors="replace") as f:
                until, why = f.readline(64).strip(), f.readline(2 * _BYTES).strip()
        except OSError:
            continue
        if _NAME.fullmatch(name) and until.isdigit() and int(until) > now_s:
            rows.append({"node": name, "why": why, "left_s": int(until) - int(now_s)})
    return rows
