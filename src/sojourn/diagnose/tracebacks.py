"""The lines of a Python traceback: its frames, the exception it names, and whether Python goes on after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.diagnose.lines import MAX_LINE, bare, plain
from sojourn.diagnose.literals import BEGINS

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Failure|Abort\w*|NotFound\w*"
    r"|Unavailable|Denied|Iteration|Quit)\b(?:: .*|\s*$)|(?:_?queue\.)?(?:Empty|Full)\s*$|\w+(?:\.\w+)+: .+"
)
_FRAME = re.compile(r'^([^"]{0,200})File "[^"]+", line \d+(?:, in .*)?\r?$')
_DIGIT = re.compile(r"\d")


def is_source(before: bytes, line: bytes) -> bool:
    """Whether a line is of the program's text: it stands below a frame of a traceback, and further in. The exception
    of a traceback that was indented as a whole, or written by a logger, stands less far in than the frames."""
    frame = _FRAME.match(plain(before[-MAX_LINE:])) if b'File "' in before else None
    return frame is not None and _begins(plain(line[:MAX_LINE]), frame[1] + "  ")


def is_ignored(lines: Sequence[bytes], index: int) -> bool:
    """Whether a line is of a traceback that Python goes on after, as it says: of a destructor, or a weak reference."""
    line = ""
    for at in range(index, max(index - 100, -1), -1):
        after, line = line, bare(plain(lines[at][:MAX_LINE]))[1]
        if after.startswith(BEGINS):
            return line.startswith("Exception ignored in")
        is_first = at == index and not line.startswith("KeyboardInterrupt")
        if not (is_first or line.startswith((" ", "\t", BEGINS))):
            return False
    return False


def _begins(line: str, lead: str) -> bool:
    """Whether a line begins with what stands before another one, a logger's words in which numbers differ."""
    return _DIGIT.sub("0", line[: len(lead)]) == _DIGIT.sub("0", lead)


def said(lines: Sequence[bytes], index: int, rank: int | None, lead: str = "") -> str:
    """The line that names the exception of the traceback at `index`: the first one that is not indented again.
    `lead`: what stands before the first line of the traceback, and mostly before the others."""
    for raw in lines[index + 1 : index + 600]:
        its, text = bare(plain(raw[:MAX_LINE]))
        text = text[len(lead) :] if _begins(text, lead) else text
        if its != rank or not text.strip() or text[:1] in " \t|":
            continue
        if _EXCEPTION.match(text):
            return text.strip()[:500]
    return ""
