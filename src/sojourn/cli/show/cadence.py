"""How often to write a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import line
from sojourn.wire.units import say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.explain.cadence import Cadence


def lines(answer: Cadence, columns: int) -> list[str]:
    """The interval, the loss that remains, and how to set it in the Checkpointer."""
    often = say_seconds(answer.interval_s) + (f", or {answer.steps:,} steps" if answer.steps else "")
    out = line("every", often, columns)
    out += line("lost", f"{answer.waste:.1%} of the time, to writing checkpoints and repeating work", columns)
    if not answer.is_sound:
        why = "one checkpoint takes at least half the time between interruptions: save less, or use a faster disk"
        return out + line("warning", why, columns)
    how = f"every_steps={answer.steps}" if answer.steps else f"every_s={answer.interval_s:.0f}"
    return out + line("set", f"Checkpointer(..., {how}); by default it measures and picks the interval itself", columns)
