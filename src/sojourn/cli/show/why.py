"""What happened: the verdict, its evidence, what else is true, and what would settle the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, command, line

if TYPE_CHECKING:
    from sojourn.verbs.explain.why import Why

OTHERS = 4  # findings after the verdict


def lines(answer: Why, columns: int) -> list[str]:
    """The verdict first; then what else was found; then what is unknown."""
    judged = answer.judged
    out = line("read", f"{clean(answer.about)}  ({clean(answer.read)})", columns)
    out += _run(answer, columns)
    best = judged.verdict
    if best is not None:
        number = f" {clean(best.was)}" if best.was else ""
        out += line("verdict", f"{best.status}: {clean(best.title)} [{clean(best.id)}{number}]", columns)
        out += findings.details(best, columns)
    elif answer.row is not None and answer.row.reach.ok is False:
        ended = "blind: nothing that can be read now tells why it ended"
        unknown = "blind: the box does not answer, so the run's state is unknown"
        out += line("verdict", ended if answer.row.state.is_final else unknown, columns)
    elif judged.is_healthy:
        out += line("verdict", "healthy: no problems found", columns)
    else:
        out += line("verdict", "undetermined: the evidence is inconclusive", columns)
    if answer.said:
        out += line("log said", clean(answer.said), columns)
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
            out += line("excluded", f"{clean(finding.title)} [{clean(finding.id)}]: {by}", columns)
    for finding in judged.findings:
        if finding.status == "blind":
            lacks = ", ".join(
                f"{clean(e.what)} ({clean(e.source.removeprefix('unknown; '))})" for e in finding.evidence
            )
            out += line("unknown", f"{clean(finding.title)} [{clean(finding.id)}]: {lacks}", columns)
    step = _next(answer)
    return [*out, command("next", step)] if step else out


def _next(answer: Why) -> str:
    """The run's own next command, else what the catalog says of the verdict, else a search in it."""
    from sojourn.store.gotchas import gotchas

    best = answer.judged.verdict
    if answer.row is not None and answer.row.next and not answer.row.next.startswith("sojourn why"):
        return clean(answer.row.next)
    if best is not None:
        return f"sojourn gotchas show {best.id}" if any(one.id == best.id for one in gotchas()) else ""
    return "" if answer.judged.is_healthy else "sojourn gotchas search WORDS"


def _run(answer: Why, columns: int) -> list[str]:
    """The run's state, as `status` has it."""
    row = answer.row
    if row is None:
        return []
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    step = f", step {row.step}" + (f" of {row.total}" if row.total else "") if row.step is not None else ""
    out = line("run", f"{row.state.value} on {clean(row.site)}{attempt}{step}", columns)
    if row.reach.ok is False:
        out += line("box", f"no answer: {clean(row.reach.error) or 'no reason given'}", columns)
    return out + (line("note", clean(answer.note), columns) if answer.note else [])
