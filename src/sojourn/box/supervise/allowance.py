"""The used part of a run's budget: reported at 50, 80 and 100 %, with or without a client."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

MARKS_PCT = (50, 80, 100)
_NEVER = float("inf")


def passed(spent_s: float, limit_s: float) -> int:
    """The highest mark that `spent_s` has reached of `limit_s`; 0 for none."""
    return max([mark for mark in MARKS_PCT if spent_s * 100.0 >= mark * limit_s], default=0)


class Allowance:
    """What was already reported, by the run's events: (mark, limit in seconds). Another limit is reported again."""

    def __init__(self, told: Tuple[int, float]) -> None:
        self._told = told

    def look(self, spent_s: float, limit_s: float | None) -> Dict[str, float]:
        """The event's fields if an unreported mark was reached, of several the highest; else nothing."""
        if limit_s is None:
            return {}
        mark = passed(spent_s, limit_s)
        if not mark or (limit_s == self._told[1] and mark <= self._told[0]):
            return {}
        self._told = (mark, limit_s)
        return {"pct": mark, "spent_s": round(spent_s, 3), "limit_s": limit_s}

    def left_s(self, spent_s: float, limit_s: float | None) -> float:
        """Seconds until the next mark; infinite if there is none."""
        if limit_s is None:
            return _NEVER
        left = [mark * limit_s / 100.0 - spent_s for mark in MARKS_PCT if mark > passed(spent_s, limit_s)]
        return min(left, default=_NEVER)
