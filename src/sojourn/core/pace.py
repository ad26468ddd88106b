"""How often a box is asked: at once, then less and less often while nothing changes. Pure."""

from __future__ import annotations

SLOWER, SLOWEST_S = 2.0, 30.0  # 0, 2, 4, 8, 16, 30 s
SPREAD = 0.25  # of the pause: by this much the boxes spread out, and never beyond the pause itself


def next_pause_s(pause_s: float, first_s: float, *, moved: bool) -> float:
    """Seconds until a box is asked again, after a question that came `pause_s` after the last one (0: the first)."""
    if moved or pause_s <= 0:
        return first_s
    return max(first_s, min(pause_s * SLOWER, SLOWEST_S))


def apart(pause_s: float, place: int, boxes: int) -> float:
    """The pause of one of several boxes, so that they are not all asked at once. The first box waits `pause_s`."""
    return pause_s * (1.0 - SPREAD * place / max(1, boxes))
