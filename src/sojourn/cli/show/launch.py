"""The outcome of `run` and `resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import findings, log
from sojourn.cli.show.text import clean, command, line

if TYPE_CHECKING:
    from sojourn.verbs.answers import Launch

_DID = {"launched": "started", "nothing": "skipped"}  # the others are shown unchanged


def lines(answer: Launch, columns: int) -> list[str]:
    """The run's id first, then what was done and why, then the next command."""
    attempt = f", attempt {answer.attempt}" if answer.attempt > 1 else ""
    out = line("run", f"{clean(answer.id)}  on {clean(answer.site)}{attempt}", columns)
    out += findings.lines(answer.findings, columns)
    did = "ended" if answer.did == "launched" and answer.state.is_final else _DID.get(answer.did, answer.did)
    out += line(did, clean(answer.why), columns)
    if answer.log_tail:
        out += ["log", *("  " + text for text in log.whole(answer.log_tail))]
    if answer.attach:
        out.append(command("attach", clean(answer.attach)))
    return [*out, command("next", clean(answer.next))] if answer.next else out
