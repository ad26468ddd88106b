"""The files pulled from one run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sojourn.cli.show import verify
from sojourn.cli.show.text import clean, clock, command, count, line
from sojourn.wire.units import say_bytes, say_money, say_seconds, unstamp

NAMED = 5

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sojourn.core.artifact import Artifact
    from sojourn.verbs.answers import Pull
    from sojourn.verbs.retrieve.follow import Brought


def lines(answer: Pull, columns: int) -> list[str]:
    """Bytes, verification, meter, next command; what is missing or bad comes between."""
    size = f"{count(answer.files, 'file')}  {say_bytes(answer.bytes)}  in {say_seconds(answer.seconds)}"
    others = answer.files - len(answer.artifacts)
    if answer.ok and others > 0:
        size += f"  ({others} are logs and evidence)"
    if answer.moved_files < answer.files:
        here = answer.files - answer.moved_files
        size += f"  ({here} already here)"
    out = line("run", clean(answer.run), columns)
    out += line("pulled", size, columns)
    out += line("into", clean(answer.home), columns) if answer.home else []
    never_made = set(answer.missing)
    for what in answer.taken:
        out += line("chosen", clean(what), columns)
    out += verify.artifacts([_worded(a) for a in answer.artifacts if a.path not in never_made], columns)
    for glob in answer.missing:
        out += line("missing", f"{clean(glob)}: required, but the run wrote no such file", columns)
    if answer.why:
        out += line("result", clean(answer.why), columns)
    out += line("meter", _meter(answer), columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out


def followed(answer: Brought, columns: int) -> list[str]:
    """What one look of --follow brought, or that the run has ended."""
    if answer.is_over:
        text = f"{clean(answer.run)} has ended; what is here so far does not count for a release"
        return [*line("ended", text, columns), command("next", f"sojourn pull {clean(answer.run)}")]
    at_s = unstamp(answer.at)
    text = f"{clock(at_s, at_s)}  {count(answer.files, 'file')}  {say_bytes(answer.bytes)}"
    if answer.checkpoint:
        text += f"; newest checkpoint here: {clean(answer.checkpoint)}"
    out = line("pulled", text, columns)
    for problem in answer.problems:
        out += line("aside", clean(problem), columns)
    return out


def _worded(artifact: Artifact) -> Artifact:
    """An artifact that lacks a library says what to install."""
    if not artifact.needs:
        return artifact
    others = [remark for remark in artifact.remarks if not remark.startswith("not loaded")]
    return replace(artifact, remarks=(f"size and SHA-256 checked, not loaded ({artifact.needs})", *others))


def nothing(going: Sequence[str], columns: int) -> list[str]:
    """If every run that has ended is here. `going`: those that, as last seen, have not."""
    out = line("pulled", "nothing to do: every run that has ended is already here", columns)
    if going:
        names = ", ".join(map(clean, going[:NAMED])) + (", ..." if len(going) > NAMED else "")
        out += line("going", f"{names}: not ended when last seen; name a run to bring what it has now", columns)
    return [*out, command("next", "sojourn status")]


def _meter(answer: Pull) -> str:
    if answer.meter.value == "free":
        return "free"
    if answer.meter.value == "unknown" and answer.spent_micro is None:
        return "unknown"
    spent = "unknown" if answer.spent_micro is None else say_money(answer.spent_micro, answer.currency)
    return f"{answer.meter.value}  {spent} so far"
