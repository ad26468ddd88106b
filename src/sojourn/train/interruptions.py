"""How often a training is interrupted: an initial figure, updated by what happened to this training.

Environment, set by the starter of the training (sojourn's keeper, if it knows):
    SOJOURN_MTBF_S           mean seconds between interruptions, from the job file or the platform's data
    SOJOURN_RAN_S            total seconds that earlier attempts ran
    SOJOURN_INTERRUPTIONS    how many of them were cut off
An attempt was cut off if it ended as killed, lost or preempted. Without the last two, the checkpoints' own count is
used: one interruption for every start that resumed.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any, Mapping

from sojourn.wire import units

UNKNOWN_MTBF_S = 3 * 3600.0  # as in the procedures' worked example: a spot machine on an ordinary day


class Interruptions:
    """`mtbf_s`: mean seconds between interruptions, by what is known now.

    A figure given in the script is used unchanged. Otherwise the initial expectation counts as one observed
    interruption: (expected + ran) / (1 + interruptions), the mean of a gamma prior of that weight.
    """

    def __init__(self, given_s: float | None) -> None:
        self._given_s = given_s
        self._said_s = _number("SOJOURN_MTBF_S")
        self._ran_s, self._count = _number("SOJOURN_RAN_S") or 0.0, int(_number("SOJOURN_INTERRUPTIONS") or 0)
        self._is_told = "SOJOURN_RAN_S" in os.environ and "SOJOURN_INTERRUPTIONS" in os.environ
        self._from_s = time.monotonic()

    def restore(self, saved: Mapping[str, Any] | None) -> None:
        """Continue counting from a resumed checkpoint: resuming it is one more interruption."""
        if saved is not None and not self._is_told:
            self._ran_s, self._count = float(saved["ran_s"]), int(saved["count"]) + 1

    def as_saved(self) -> dict[str, Any]:
        """The argument of a later `restore`."""
        return {"ran_s": round(self._ran_so_far_s(), 1), "count": self._count}

    @property
    def mtbf_s(self) -> float:
        """Seconds, above 0."""
        if self._given_s is not None:
            return self._given_s
        expected_s = self._said_s or UNKNOWN_MTBF_S
        return max(1.0, (expected_s + self._ran_so_far_s()) / (1 + self._count)) if self._count else expected_s

    def words(self) -> str:
        """The figure and its origin, for a person."""
        text = f"an interruption every {units.say_seconds(self.mtbf_s)}"
        if self._given_s is not None:
            return text
        if self._count:
            times = "1 time" if self._count == 1 else f"{self._count} times"
            return f"{text}: {times} in {units.say_seconds(self._ran_so_far_s())} so far"
        return text + (": expected for this job" if self._said_s else ": no better figure is known yet")

    def _ran_so_far_s(self) -> float:
        return self._ran_s + time.monotonic() - self._from_s


def _number(name: str) -> float | None:
    try:
        value = float(os.environ.get(name, ""))
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None
