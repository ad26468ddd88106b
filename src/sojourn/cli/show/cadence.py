"""How often to write a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import line
from sojourn.wire.units import say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.explain.cadence import Cadence


def lines(answer: Cadence, columns: int) -> list[str]:
    """The interval, what is lost all the same, and how to say it to the Checkpointer."""
    often = say_seconds(answer.interval_s) + (f", or {answer.steps:,} steps" if answer.steps else "")
    out = line("every", often, columns)
    out += line("lost", f"{answer.waste:.1%} of all time, by writing and by work done twice", columns)
    if not answer.is_sound:
        why = "a write takes half of the time between interruptions, or more: write less, or to a faster disk"
        return out + line("warning", why, columns)
    how = f"every_steps={answer.steps}" if answer.steps else f"every_s={answer.interval_s:.0f}"
    return out + line("so", f"Checkpointer(..., {how}); without it, it measures and decides by itself", columns)
