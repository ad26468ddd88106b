"""The pace of a training: from marks of (seconds, step) to the seconds remaining. Pure."""

from __future__ import annotations

from sojourn.wire import units

_WINDOW_S = 300.0  # the step rate covers the last 5 to 10 minutes, so a changed pace shows


def mark(at: str, step: int | None) -> tuple[float, int] | None:
    """(seconds, step) of a training's report; None if it has no step or no time."""
    try:
        return None if step is None else (units.unstamp(at), step)
    except ValueError:
        return None


def paced(pace: tuple[tuple[float, int], ...], new: tuple[float, int]) -> tuple[tuple[float, int], ...]:
    """At most three marks: older, younger, newest. The younger becomes the older once it is a window old."""
    if pace and new[0] <= pace[-1][0]:
        return pace
    if len(pace) < 3:
        return (*pace, new)
    older, younger, _ = pace
    if new[0] - younger[0] >= _WINDOW_S:
        return (younger, new, new)
    return (older, younger, new)


def remaining_s(pace: tuple[tuple[float, int], ...], total: int | None) -> float | None:
    """Seconds to `total` at the pace of the marks; None if unknown."""
    if len(pace) < 2 or total is None:
        return None
    seconds, steps = pace[-1][0] - pace[0][0], pace[-1][1] - pace[0][1]
    if seconds <= 0 or steps <= 0:
        return None
    return round(max(0, total - pace[-1][1]) * seconds / steps, 1)
