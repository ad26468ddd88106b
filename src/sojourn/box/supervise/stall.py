"""When a payload counts as stalled (`stall_after` in the job file)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

_MOVING_CORES = 0.01  # a waiting training process uses less than this, one that loads data more


class StallDetector:
    """Detects a stall: no new log bytes, no new step, no CPU or GPU activity for `after_s` seconds (None: never).

    Counting begins at the first step, so a process that reports no steps never counts as stalled.
    """

    def __init__(self, after_s: float | None) -> None:
        self.after_s = after_s
        self.is_stalled = False
        self._seen: Tuple[Any, ...] = ()
        self._cpu_s = 0.0
        self._gpu_moves = False
        self._at_s = 0.0  # when the last activity was seen
        self._looked_s = 0.0

    def update(self, now_s: float, beat: Dict[str, Any], step: int | None) -> str:
        """Take in the beat of `now_s` (monotonic). Returns "stalled" or "moving" when that begins, else ""."""
        if not self.after_s or step is None:
            return ""
        seen = (beat.get("log_bytes"), step)
        cpu_s = float(beat.get("cpu_s") or self._cpu_s)
        cores = abs(cpu_s - self._cpu_s) / max(now_s - self._looked_s, 1e-3)
        if "gpu" in beat:  # reported once a minute; holds until the next report
            self._gpu_moves = any((card.get("util_pct") or 0) > 0 for card in beat["gpu"])
        moved = seen != self._seen or cores > _MOVING_CORES or self._gpu_moves
        self._seen, self._cpu_s, self._looked_s = seen, cpu_s, now_s
        if moved:
            self._at_s = now_s
            if self.is_stalled:
                self.is_stalled = False
                return "moving"
        elif not self.is_stalled and now_s - self._at_s >= self.after_s:
            self.is_stalled = True
            return "stalled"
        return ""

    def quiet_s(self, now_s: float) -> float:
        """Seconds since the last activity."""
        return round(max(0.0, now_s - self._at_s), 1)
