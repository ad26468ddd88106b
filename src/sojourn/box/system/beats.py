"""A sign of life on standard error while a call works for long: the client gives up a box that is silent for a minute.

By a timer in the main thread: whatever hangs, on a dead disk for example, gives no sign.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVERY_S = 15.0
_BEAT = b" " * 1023 + b"\n"  # fewer bytes would count as silence, as those of a broken link do


def begin(every_s: float = EVERY_S) -> None:
    """From now on. Children have no such timer."""
    import _signal  # type: ignore[import-not-found]  # `signal` itself would cost every call 2 ms

    _signal.signal(_signal.SIGALRM, _beat)
    _signal.setitimer(_signal.ITIMER_REAL, every_s, every_s)


def _beat(*_: Any) -> None:
    try:
        os.write(2, _BEAT)
    except OSError:
        pass  # nobody listens any more
