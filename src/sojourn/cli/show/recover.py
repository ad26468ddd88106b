"""The outcome of `recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line, table

if TYPE_CHECKING:
    from sojourn.verbs.takeover.recover import Recovered

HEAD = ("RUN", "STATE", "ATTEMPT", "RECORDS")
_DID = {"known": "already here", "other": "name taken"}


def lines(answer: Recovered, columns: int) -> list[str]:
    """A line for each run of the box, what was left, what only the first machine knew, the next command."""
    if not answer.runs:
        out = [] if answer.remarks and answer.lease else [f"no sojourn runs on {clean(answer.site)}"]
        for remark in answer.remarks:
            out += line("remark", clean(remark), columns)
        return [*out, command("next", clean(answer.next))]
    rows = [
        (clean(run.id), run.state.value if run.state else "", str(run.attempt or ""), _DID.get(run.did, run.did))
        for run in answer.runs
    ]
    out = table(HEAD, rows, columns, right=(2,))
    new = sum(run.did == "recovered" for run in answer.runs)
    out += ["", *line("records", f"{count(new, 'run')} added from {clean(answer.site)}", columns)]
    for run in answer.runs:
        if run.why:
            out += line("skipped", f"{clean(run.id)}: {clean(run.why)}", columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    return [*out, command("next", clean(answer.next))]
