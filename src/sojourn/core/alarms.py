"""What deserves a person's attention while there is time to act. Pure; `verbs/observe/alarms.py` gathers the facts."""

from __future__ import annotations

from dataclasses import dataclass

STALLED, TOO_FAST, BILLING, IDLE, ANEW = "stalled", "too-fast", "done-but-billing", "idle", "began-anew"
CLOCK = "clock"  # followed by the hours left: clock-6h
BUDGET = "budget"  # followed by the mark reached: budget-50
FAST = 0.5  # as a share of the expected time; as in the gotcha finished-too-fast
FAST_LEAST_S = 10.0  # a smaller difference is start-up noise
SIBLINGS = 3  # finished cells needed before anything is expected
IDLE_S = 900.0  # a GPU idle for this long under a run; a lease without a run


@dataclass(frozen=True)
class Alarm:
    """One alarm. `about`: a run or a lease; `text`: the problem; `next`: the command that helps."""

    kind: str
    about: str
    text: str
    next: str

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the same alarm when it is raised again."""
        return self.kind, self.about

    @property
    def line(self) -> str:
        """The subject and the problem."""
        return f"{self.about}: {self.text}"


def is_short(step: int | None, total: int | None) -> bool:
    """It ended by itself after less than half of the steps it announced."""
    return step is not None and bool(total) and step < FAST * (total or 0)


def is_fast(took_s: float, expected_s: float, siblings: int) -> bool:
    """It took less than half the time expected from its finished siblings."""
    return siblings >= SIBLINGS and took_s < FAST * expected_s and expected_s - took_s >= FAST_LEAST_S
