"""How the smoke command ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import log
from sojourn.cli.show.text import clean, command, line
from sojourn.wire.units import say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.project.smoke import Smoke


def lines(answer: Smoke, columns: int) -> list[str]:
    """The command, how it ended, its last lines when it was bad, the next command."""
    took = say_seconds(answer.seconds)
    how = {
        "exit": f"ended with exit status {answer.rc} after {took}",
        "signal": f"ended by signal {answer.rc} after {took}",
        "timeout": f"was not done after {took}, and was ended",
    }[answer.ended]
    out = line("ran", clean(answer.command), columns)
    out += line("good" if answer.ok else "bad", how, columns)
    if not answer.ok:
        said = log.whole(answer.tail)
        out += ["log", *("  " + text for text in said)] if said else line("log", "it said nothing", columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    return [*out, command("next", clean(answer.next))]
