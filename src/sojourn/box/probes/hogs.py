"""What fills a nearly full file system: the biggest folders by bytes and by number of files, including caches.

Counting takes time for every file, so it is done only for full file systems, and stops at the deadline with its count
so far.
"""

from __future__ import annotations

import functools
import os
import time

from sojourn.box.probes import room
from sojourn.box.run import places
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import bounded, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

COUNT_S = 0.7
FULL = 0.8
_ASK_S = 0.5
BYTES, INODES = "du -xk", "du -x --inodes"
_ROWS = 20
_DEEP = 5  # deeper folders count towards the one above


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """BYTES ("kib path") and INODES ("count path"), biggest first; rc 124 if there was no time to count all."""
    tops = _tops(context)
    if not tops:
        return {}
    until_s = time.monotonic() + COUNT_S
    sizes: Dict[str, List[int]] = {}
    whole = True
    for at, top in enumerate(tops):
        now = time.monotonic()
        whole = _count(top, now + (until_s - now) / (len(tops) - at), sizes) and whole
    rc, said = (0, "") if whole else (raw.NO_ANSWER, "counted in part: %g s are over" % COUNT_S)
    return {BYTES: _told(sizes, 0, 1024, rc, said), INODES: _told(sizes, 1, 1, rc, said)}


def _tops(context: AttemptContext) -> List[str]:
    """Where to count: folders of the run, of all runs, of caches and the home on a full file system, links followed,
    without duplicates or nesting. Each is checked in a child, since a dead mount hangs."""
    wanted = places.wanted(context)
    # The run's own folder first: there a person can act.
    paths = list(dict.fromkeys(wanted[:1] + [context.root.base] + wanted[1:]))
    asked = [bounded.Question(path, functools.partial(_full, path), _ASK_S) for path in paths]
    answers = bounded.ask(asked, in_group=True)
    reals = list(dict.fromkeys(answers[path].value for path in paths if answers[path].value))
    return [one for one in reals if not any(one != top and one.startswith(top + "/") for top in reals)]


def _full(path: str) -> str:
    """The real path of a folder on a full file system, else "". May hang."""
    told = room.look(path, [])
    if told is None or told["real"] == "/" or not os.path.isdir(told["real"]):
        return ""
    pairs = ((told["used_kib"], told["avail_kib"]), (told["used_inodes"], told["free_inodes"]))
    is_full = any(used + free > 0 and used / (used + free) >= FULL for used, free in pairs)
    return str(told["real"]) if is_full else ""


def _count(top: str, until_s: float, sizes: Dict[str, List[int]]) -> bool:
    """Add bytes and files below `top` to its folders down to _DEEP; False if time ran out."""
    try:
        device = os.stat(top).st_dev
    except OSError:
        return True
    stack: List[Tuple[str, List[List[int]]]] = [(top, [sizes.setdefault(top, [0, 0])])]
    while stack:
        folder, above = stack.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                s = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if s.st_dev != device:
                continue
            for total in above:
                total[0] += s.st_blocks * 512
                total[1] += 1
            if entry.is_dir(follow_symlinks=False):
                down = above
                if len(above) <= _DEEP:
                    down = above + [sizes.setdefault(entry.path, [0, 0])]
                stack.append((entry.path, down))
        if time.monotonic() > until_s:
            return False
    return True


def _told(sizes: Dict[str, List[int]], which: int, unit: int, rc: int, said: str) -> raw.Entry:
    rows = sorted(((counts[which] // unit, path) for path, counts in sizes.items()), reverse=True)
    return dict(raw.lines(["%d\t%s" % row for row in rows], _ROWS), rc=rc, stderr=said)
