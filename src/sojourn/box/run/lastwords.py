"""The last words of a log, for the event that reports an end: enough to judge it by without asking the box again.

Lines that name an error are usually above what launchers and other ranks still say, so they are picked from a longer
end of the log. Secrets are hidden; lines are whole, in order, and cut if long.
"""

from __future__ import annotations

import re

from sojourn.box.run import secrets
from sojourn.box.run.log_progress import LogProgress
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
# Lightning says "[rank: 0] Received SIGTERM: 15", others "caught signal SIGTERM" or "SIGTERM received".
_SIGTERM = re.compile(
    rb"(?i)\b(received|caught|got|handling)\b[^\r\n]{0,40}\bSIGTERM\b|\bSIGTERM\b[^\r\n]{0,20}\b(received|caught)\b"
)
_SIGTERM_BYTES = 16 << 10


def tells_of_being_cut(root: Root, attempt: int, is_told: bool) -> bool:
    """Whether a payload that ended with 0 left at a SIGTERM before it was done: its log does not count to the end, and
    ends with words about that signal, or we sent it one (`is_told`) and the log counts. Raises: nothing.
    """
    try:
        with open(root.log(attempt), "rb", buffering=0) as f:
            f.seek(max(0, f.seek(0, 2) - _SIGTERM_BYTES))
            says = bool(_SIGTERM.search(f.read(_SIGTERM_BYTES)))
    except OSError:
        return False
    if not says and not is_told:
        return False
    progress = LogProgress(root.log(attempt))
    progress.look()
    step, total = ((progress.value or {}).get(name) for name in ("step", "total"))
    return says if step is None or total is None else bool(step < total)


def of_log(root: Root, attempt: int) -> str:
    """What is worth keeping from the end of an attempt's log, at most 8 KiB; "" if it has none."""
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
    """The last lines, and before them the notable ones: the first, because they are nearer to the cause, and the last,
    because the run may have recovered from an earlier error."""
    rest, last = lines[:-LAST_LINES], lines[-LAST_LINES:]
    notable = [at for at, line in enumerate(rest) if _NOTABLE.search(line[:2000])]
    half = NOTABLE_LINES // 2
    kept = notable if len(notable) <= NOTABLE_LINES else notable[:half] + notable[-half:]
    return [line[:LINE_BYTES] for line in [rest[at] for at in kept] + last]
