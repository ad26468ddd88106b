"""The outcome of `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, line

if TYPE_CHECKING:
    from sojourn.verbs.answers import Stop


def lines(answer: Stop, columns: int) -> list[str]:
    """Whether it has ended, how, and the next command."""
    out = line("run", f"{clean(answer.id)}, attempt {answer.attempt}", columns)
    out += line("ended" if answer.ended else "stopping", clean(answer.why), columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out
