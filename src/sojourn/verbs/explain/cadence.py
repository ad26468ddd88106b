"""`cadence`: how often to write a checkpoint, from how often a training is interrupted and what a write costs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sojourn.verbs.answers import document
from sojourn.wire import cadence as formula
from sojourn.wire.errors import Misuse


class BadCadence(Misuse):
    """--{name} must be above 0."""

    code = "bad-cadence"
    next_step = "sojourn cadence --help"


@dataclass(frozen=True)
class Cadence:
    """Seconds of work between checkpoints, and the share of all time that is lost then. `steps`: 0 without a step."""

    mtbf_s: float
    write_s: float
    step_s: float
    interval_s: float
    steps: int
    waste: float

    @property
    def is_sound(self) -> bool:
        """Whether the formula still holds: a write must be far shorter than the time between interruptions."""
        return self.write_s < self.mtbf_s / 2

    @property
    def exit_status(self) -> int:
        """10 where writing takes so long that hardly any work is left."""
        return 0 if self.is_sound else 10

    def as_json(self) -> dict[str, Any]:
        """The `cadence` document."""
        return document(self, "cadence", is_sound=self.is_sound)


def cadence(mtbf_s: float, write_s: float, step_s: float = 0.0) -> Cadence:
    """The interval that wastes the least, rounded down to whole steps where `step_s` is given. Raises: BadCadence."""
    for name, value in (("mtbf", mtbf_s), ("write", write_s)):
        if not value > 0:
            raise BadCadence(name=name)
    interval_s, steps = formula.interval_s(mtbf_s, write_s), 0
    if step_s > 0:
        steps = formula.steps(interval_s, step_s)
        interval_s = steps * step_s
    return Cadence(mtbf_s, write_s, step_s, interval_s, steps, formula.waste(mtbf_s, write_s, interval_s))
