"""What happened: the verdict, what decided it, what else is true, what would settle what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, line

if TYPE_CHECKING:
    from sojourn.verbs.explain.why import Why

OTHERS = 4  # findings after the verdict


def lines(answer: Why, columns: int) -> list[str]:
    """The verdict first; then what else was found; then what is open."""
    judged = answer.judged
    out = line("read", f"{clean(answer.about)}  ({clean(answer.read)})", columns)
    out += _run(answer, columns)
    best = judged.verdict
    if best is not None:
        number = f" {clean(best.was)}" if best.was else ""
        out += line("verdict", f"{best.status}: {clean(best.title)} [{clean(best.id)}{number}]", columns)
        out += findings.details(best, columns)
    elif answer.row is not None and answer.row.reach.ok is False:
        out += line("verdict", "blind: nothing is known about the run itself", columns)
    elif judged.is_healthy:
        out += line("verdict", "healthy: nothing speaks against it", columns)
    else:
        out += line("verdict", "undetermined: nothing that was seen decides it", columns)
    if answer.said:
        out += line("said", clean(answer.said), columns)
    shown = (
        ("confirmed", "conflict")
        if best is not None and best.status == "confirmed"
        else ("confirmed", "conflict", "likely")
    )
    others = [f for f in judged.findings if f is not best and f.status in shown][:OTHERS]
    if best is None:
        out += findings.lines(others, columns)
    else:  # mostly what follows from it
        for other in others:
            out += line("also", f"{other.status}: {clean(other.title)} [{clean(other.id)}]", columns)
    for finding in judged.findings:
        if finding.status == "ruled-out":
            by = ", ".join(f"{clean(e.what)} = {clean(e.value)}" for e in finding.evidence)
            out += line("not", f"{clean(finding.title)} [{clean(finding.id)}]: {by}", columns)
    for finding in judged.findings:
        if finding.status == "blind":
            lacks = ", ".join(f"{clean(e.what)}: {clean(e.source)}" for e in finding.evidence)
            out += line("open", f"{clean(finding.title)} [{clean(finding.id)}]: {lacks}", columns)
    return out


def _run(answer: Why, columns: int) -> list[str]:
    """How the run stands, as `status` has it."""
    row = answer.row
    if row is None:
        return []
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    step = f", step {row.step}" + (f" of {row.total}" if row.total else "") if row.step is not None else ""
    out = line("run", f"{row.state.value} on {clean(row.site)}{attempt}{step}", columns)
    if row.reach.ok is False:
        out += line("box", f"does not answer: {clean(row.reach.error) or 'no reason given'}", columns)
    return out + (line("note", clean(answer.note), columns) if answer.note else [])
