"""Names of committed checkpoints, so that both sides find the newest without opening one."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Tuple

# One of our files, or a sealed folder; a folder cannot replace another one, so it is counted within its step.
NAME = re.compile(r"ckpt-t(\d{6,})-s(\d{8,})(?:\.pt|-(\d+))?")


def order(name: str) -> Tuple[int, int, int]:
    """(fencing token, step, count) of a name that matches NAME whole: the highest is the newest."""
    hit = NAME.fullmatch(name)
    if hit is None:
        raise ValueError("not the name of a checkpoint: %r" % name)
    return int(hit.group(1)), int(hit.group(2)), int(hit.group(3) or 0)


def newest_first(names: Iterable[str]) -> List[str]:
    """Those of these names that are committed checkpoints, newest first."""
    return sorted((name for name in names if NAME.fullmatch(name)), key=order, reverse=True)
