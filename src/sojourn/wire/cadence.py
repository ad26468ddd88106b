"""How often to write a checkpoint: the interval that wastes the least time, and how much it still wastes."""

from __future__ import annotations

import math


def interval_s(mtbf_s: float, write_s: float) -> float:
    """Seconds of work between checkpoints that waste the least time.

    First-order optimum sqrt(2 * mtbf * write), floored at `write_s`.
    Units: seconds in, seconds out.   Raises: ValueError unless both are > 0 and finite.
    Source: Young 1974, doi 10.1145/361147.361115.   Holds for: write_s < mtbf_s / 2.
    """
    _check(mtbf_s=mtbf_s, write_s=write_s)
    return max(write_s, math.sqrt(2.0 * mtbf_s * write_s))


def steps(interval_s: float, step_s: float) -> int:
    """Whole steps of `step_s` seconds that fit into an interval: rounded down to a step boundary, at least one.

    Raises: ValueError unless both are > 0 and finite.
    """
    _check(interval_s=interval_s, step_s=step_s)
    return max(1, int(interval_s / step_s))


def waste(mtbf_s: float, write_s: float, interval_s: float) -> float:
    """The share of time (0 to 1) spent on writing and on repeated work, with a checkpoint every `interval_s`.

    First order: write / interval + interval / (2 * mtbf); at the optimum sqrt(2 * write / mtbf). Cut at 1.
    Raises: ValueError unless all are > 0 and finite.   Source: as `interval_s`.
    """
    _check(mtbf_s=mtbf_s, write_s=write_s, interval_s=interval_s)
    return min(1.0, write_s / interval_s + interval_s / (2.0 * mtbf_s))


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
