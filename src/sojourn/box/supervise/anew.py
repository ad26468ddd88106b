"""Detects an attempt that starts at the first attempt's very steps, though it had something to resume from.

By the log alone: a training that reports through `sojourn.train` loads its checkpoint by itself.
"""

from __future__ import annotations

import os

from sojourn.box.run.log_progress import first_steps
from sojourn.box.run.root import Root, attempts_made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_LATEST = 1  # the first step of a training is 0 or 1


class Anew:
    """Of attempt `number`. `resumes`: what it could resume from, "" if nothing."""

    def __init__(self, root: Root, number: int, resumes: str) -> None:
        self._root = root
        self._number = number
        self._resumes = resumes
        self._is_open = bool(resumes) and number > 1 and not os.path.exists(root.progress(number))

    def look(self) -> Dict[str, Any]:
        """The fields of a `restarted` event, once it clearly started anew; else nothing."""
        if not self._is_open:
            return {}
        steps = first_steps(self._root.log(self._number))
        if len(steps) < 2 and not (steps and steps[0] > _LATEST):
            return {}
        self._is_open = False
        earlier = [n for n in attempts_made(self._root) if n < self._number]
        before = next((found for n in earlier for found in [first_steps(self._root.log(n))] if len(found) == 2), ())
        # The same two steps: a bar that starts at 0 and then jumps to the point of resumption is no restart.
        if not before or steps[0] > max(_LATEST, before[0]) or steps[1] > 2 * before[1] + 1:
            return {}
        return {"step": steps[0], "resumes": self._resumes}
