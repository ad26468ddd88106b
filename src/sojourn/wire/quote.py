"""The one place that quotes for a POSIX shell."""

from __future__ import annotations

import shlex
from typing import Iterable


def join(argv: Iterable[str]) -> str:
    """argv as one shell line that a POSIX shell splits back into the same words, whatever they contain."""
    return " ".join(shlex.quote(word) for word in argv)
