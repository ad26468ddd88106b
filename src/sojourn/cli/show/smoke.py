"""How the smoke command ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import log
from sojourn.cli.show.text import clean, command, line
from sojourn.wire.units import say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.project.smoke import Smoke


def lines(answer: Smoke, columns: int) -> list[str]:
    """The command, how it ended, its last lines if it failed, the next command."""
    took = say_seconds(answer.seconds)
    how = {
        "exit": f"exit status {answer.rc} after {took}",
        "signal": f"killed by signal {answer.rc} after {took}",
        "timeout": f"still running after {took}, stopped",
    }[answer.ended]
    out = line("ran", clean(answer.command), columns)
    out += line("ok" if answer.ok else "failed", how, columns)
    if not answer.ok:
        said = log.whole(answer.tail)
        out += ["log", *("  " + text for text in said)] if said else line("log", "no output", columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    return [*out, command("next", clean(answer.next))]
