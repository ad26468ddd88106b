"""What happened: the verdict, its evidence, what else is true, and what would settle the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, command, line
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.explain.why import Why

OTHERS = 4  # findings after the verdict


def lines(answer: Why, columns: int) -> list[str]:
    """The verdict first; then other findings; then what is unknown."""
    judged = answer.judged
    out = line("read", f"{clean(answer.about)}  ({clean(answer.read)})", columns)
    out += _run(answer, columns)
    best = judged.verdict
    if best is not None:
        number = f" {clean(best.was)}" if best.was else ""
        out += line("verdict", f"{best.status}: {clean(best.title)} [{clean(best.id)}{number}]", columns)
        out += findings.details(best, columns)
    elif answer.row is not None and answer.row.reach.ok is False:
        ended = "blind: no evidence that can be read now shows why it ended"
        unknown = "blind: the box does not answer, so the run's state is unknown"
        out += line("verdict", ended if answer.row.state.is_final else unknown, columns)
    elif judged.is_healthy:
        finished = "finished" if answer.outcome == "finished" else "healthy"
        out += line("verdict", f"{finished}: no problems found", columns)
    else:
        out += line("verdict", "undetermined: the evidence is inconclusive", columns)
    if answer.said:
        out += line("log said", clean(answer.said), columns)
    for one in answer.alike:
        logs = "a known log" if one.logs == 1 else f"{one.logs} known logs"
        out += line("possible", f"looks like {logs} of: {_title(one.id)} [{clean(one.id)}]", columns)
        for own in one.lines:
            out += line("", f"by: {clean(own.strip())}", columns)
    for missed in answer.kept_home:
        size = say_bytes(missed.bytes)
        out += line(
            "missing", f"{clean(missed.path)} ({size}) is here; an ignore file keeps it from being pushed", columns
        )
        out.append(command("push it", clean(missed.push)))
        if missed.mount:
            out.append(command("or mount", f"{clean(missed.mount)}  # in {clean(missed.job_file)}"))
    shown = (
        ("confirmed", "conflict")
        if best is not None and best.status == "confirmed"
        else ("confirmed", "conflict", "likely")
    )
    others = [f for f in judged.findings if f is not best and f.status in shown][:OTHERS]
    if best is None:
        out += findings.lines(others, columns)
    else:  # mostly consequences
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
    """The run's own next command, else the verdict's from the catalog, else a search in it."""
    from sojourn.store.gotchas import gotchas

    best = answer.judged.verdict
    if answer.row is not None and answer.row.next and not answer.row.next.startswith("sojourn why"):
        return clean(answer.row.next)
    if best is not None:
        return f"sojourn gotchas show {best.id}" if any(one.id == best.id for one in gotchas()) else ""
    if answer.alike:
        return f"sojourn gotchas show {answer.alike[0].id}"
    return "" if answer.judged.is_healthy else "sojourn gotchas search WORDS"


def _title(gotcha: str) -> str:
    from sojourn.store.gotchas import gotchas

    return next((clean(one.title) for one in gotchas() if one.id == gotcha), gotcha)


def _run(answer: Why, columns: int) -> list[str]:
    """The run's state, as in `status`."""
    row = answer.row
    if row is None:
        return []
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    step = (
        f", {row.unit or 'step'} {row.step}" + (f" of {row.total}" if row.total else "") if row.step is not None else ""
    )
    out = line("run", f"{row.state.value} on {clean(row.site)}{attempt}{step}", columns)
    if row.reach.ok is False:
        out += line("box", f"no answer: {clean(row.reach.error) or 'no reason given'}", columns)
    return out + (line("note", clean(answer.note), columns) if answer.note else [])
