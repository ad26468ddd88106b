"""What a person should be told of while it can still be helped. Pure; `verbs/observe/alarms.py` gathers the facts."""

from __future__ import annotations

from dataclasses import dataclass

STALLED, TOO_FAST, BILLING, IDLE, ANEW = "stalled", "too-fast", "done-but-billing", "idle", "began-anew"
FAST = 0.5  # of what was expected; as in the gotcha finished-too-fast
FAST_LEAST_S = 10.0  # a difference below that is start-up, and no sign
SIBLINGS = 3  # finished cells that it takes to expect anything
IDLE_S = 900.0  # a card that does nothing for so long under a run; a lease without a run


@dataclass(frozen=True)
class Alarm:
    """One alarm. `about`: a run or a lease; `text`: what is the matter; `next`: the command that helps."""

    kind: str
    about: str
    text: str
    next: str

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same alarm as before."""
        return self.kind, self.about

    @property
    def line(self) -> str:
        """About what, and what."""
        return f"{self.about}: {self.text}"


def is_short(step: int | None, total: int | None) -> bool:
    """It ended by itself with less than half of the steps that it said it would do."""
    return step is not None and bool(total) and step < FAST * (total or 0)


def is_fast(took_s: float, expected_s: float, siblings: int) -> bool:
    """It took less than half of what its finished siblings let expect."""
    return siblings >= SIBLINGS and took_s < FAST * expected_s and expected_s - took_s >= FAST_LEAST_S
