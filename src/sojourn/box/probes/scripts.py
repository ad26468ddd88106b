"""Scripts that a shell of the run is still reading. A shell continues where it stopped, so a script rewritten meanwhile
does what neither version says.
"""

from __future__ import annotations

import hashlib
import os

from sojourn.box.run import tree
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import members, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_SCRIPT_FD = "255"  # bash's descriptor of its script
_SHELLS = 10
_BYTES = 1 << 20


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`scripts`: "sha256-now sha256-at-launch pid path"; "-" for one that was not pushed with the code.

    Nothing if no shell is reading a script.
    """
    rows = []
    copy = context.root.attempt(context.attempt)
    for pid in members.below(context.top())[: 50 * _SHELLS] if context.top() else ():
        link = "/proc/%d/fd/%s" % (pid, _SCRIPT_FD)
        try:
            path = os.readlink(link)
            if not path.startswith("/") or path.startswith("/dev/"):
                continue
            with open(link, "rb", buffering=0) as f:
                now = hashlib.sha256(f.read(_BYTES) or b"").hexdigest()
        except OSError:
            continue
        before = _pushed(context).get(os.path.relpath(path, copy), "-")
        rows.append("%s %s %d %s" % (now, before, pid, path))
    return {"scripts": raw.lines(rows, _SHELLS)} if rows else {}


def _pushed(context: AttemptContext) -> Dict[str, str]:
    """Path -> sha256 of the pushed code."""
    try:
        rows = tree.read_roster(context.root.base, str(context.spec.get("code") or ""))
    except (OSError, tree.Damaged):
        return {}
    return {str(row.get("path")): str(row.get("sha256")) for row in rows}
