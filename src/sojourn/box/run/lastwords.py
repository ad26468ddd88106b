"""The last words of a log, for the event that tells an end: enough to judge it by without asking the box again.

The lines that name an error mostly stand above what launchers and other ranks still have to say, so those are picked
from a longer end of the log. What is a secret is hidden; lines are whole, in their order, and cut where they are long.
"""

from __future__ import annotations

import re

from sojourn.box.run import secrets
from sojourn.box.run.root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

LOOKED_AT = 256 << 10
LAST_LINES, NOTABLE_LINES, LINE_BYTES = 8, 16, 300
_NOTABLE = re.compile(
    rb"(?i)error|exception|traceback|kill|fault|abort|signal|exit ?code|exit status|cancel|fatal|denied|no space"
    rb"|exceeded|timed? ?out|too many|not found|cannot|unable|oom|out of memory|refused|expired|warn\b"
)


def of_log(root: Root, attempt: int) -> str:
    """What is worth keeping of the end of an attempt's log, 8 KiB at most; "" where it has none."""
    try:
        with open(root.log(attempt), "rb", buffering=0) as f:
            size = f.seek(0, 2)
            start = max(0, size - LOOKED_AT)
            data = secrets.read_masked(root, f, start, size - start, secrets.read_secrets(root))
    except OSError:
        return ""
    lines = data.replace(b"\r", b"\n").split(b"\n")
    if start:
        del lines[0]
    lines = [line.rstrip() for line in lines if line.strip()]
    return b"\n".join(_picked(lines)).decode("utf-8", "replace")


def _picked(lines: List[bytes]) -> List[bytes]:
    """The last lines, and before them the notable ones: those seen first, because they are nearer to the cause, and
    the last ones, because an earlier error may have been got over."""
    rest, last = lines[:-LAST_LINES], lines[-LAST_LINES:]
    notable = [at for at, line in enumerate(rest) if _NOTABLE.search(line[:2000])]
    half = NOTABLE_LINES // 2
    kept = notable if len(notable) <= NOTABLE_LINES else notable[:half] + notable[-half:]
    return [line[:LINE_BYTES] for line in [rest[at] for at in kept] + last]
