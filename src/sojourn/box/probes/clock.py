"""The machine's clocks, and whether its time is synchronized. Source: adjtimex(2) (2026-11)."""

from __future__ import annotations

import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import machine, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_UNSYNCHRONIZED = 5  # TIME_ERROR


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`clock`: "real S", "boot S", "mono S", "synchronized yes|no|unknown". Only the client compares them."""
    rows = [
        "real %.6f" % time.time(),
        "boot %.6f" % machine.boot_clock_s(),
        "mono %.6f" % time.monotonic(),
        "synchronized %s" % _synchronized(),
    ]
    return {"clock": raw.lines(rows, len(rows))}


def _synchronized() -> str:
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        state = library.adjtimex(ctypes.create_string_buffer(512))  # all zero: a query, no change
    except (ImportError, OSError, AttributeError):
        return "unknown"
    return "unknown" if state < 0 else "no" if state == _UNSYNCHRONIZED else "yes"
