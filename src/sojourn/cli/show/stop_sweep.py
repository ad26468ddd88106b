"""The outcome of `stop` for a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line

if TYPE_CHECKING:
    from sojourn.verbs.sweep.stop_sweep import StoppedSweep


def lines(answer: StoppedSweep, columns: int) -> list[str]:
    """How many cells never start, how many ended, what remains, and the next command."""
    out = line("sweep", clean(answer.id), columns)
    out += line("ended" if not answer.left else "stopping", clean(answer.why), columns)
    if answer.left:
        named = clean(answer.left[0]) + ", ..." * (len(answer.left) > 1)
        out += line("left", f"{count(len(answer.left), 'cell')} not confirmed ended: {named}", columns)
    return [*out, command("next", clean(answer.next))]
