"""The last words of a log, for the event that reports an end: enough to judge it by without asking the box again.

Lines that name an error are usually above what launchers and other ranks still say, so they are picked from a longer
end of the log. Secrets are hidden; lines are whole, in order, and cut if long.
"""

from __future__ import annotations

import re

from sojourn.box.run import secrets
from sojourn.box.run.log_progress import LogProgress
from sojourn.box.run.root import Root

LOOKED_AT = 256 << 10
LAST_LINES, NOTABLE_LINES, LINE_BYTES = 8, 16, 340
_NOTABLE = re.compile(
    rb"(?i)error|exception|traceback|kill|fault|abort|signal|exit ?code|exit status|cancel|fatal|denied|no space"
    rb"|exceeded|timed? ?out|too many|not found|cannot|unable|oom|out of memory|refused|expired|warn\b|fail|invalid"
    rb"|duplicate|mismatch|corrupt|no such|could ?n[o']t|interrupt|low on|limit|disk full|not enough"
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
    return worth_keeping(data.replace(b"\r", b"\n").partition(b"\n")[2] if start else data)


def worth_keeping(log: bytes) -> str:
    """The last lines, and before them the notable ones: the first, because they are nearer to the cause, and the last,
    because the run may have recovered from an earlier error."""
    lines = [line.rstrip() for line in log.replace(b"\r", b"\n").split(b"\n") if line.strip()]
    rest, last = lines[:-LAST_LINES], lines[-LAST_LINES:]
    notable = [at for at, line in enumerate(rest) if _NOTABLE.search(line[:2000])]
    half = NOTABLE_LINES // 2
    kept = notable if len(notable) <= NOTABLE_LINES else notable[:half] + notable[-half:]
    return b"\n".join(_cut(line) for line in [rest[at] for at in kept] + last).decode("utf-8", "replace")


def _cut(line: bytes) -> bytes:
    """A long line without its middle: who speaks stands at its beginning, and what went wrong often at its end."""
    if len(line) <= LINE_BYTES:
        return line
    half = LINE_BYTES // 2
    return line[: half - 5] + b" ... " + line[-half:]
