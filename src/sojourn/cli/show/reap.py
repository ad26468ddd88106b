"""The processes on a machine's GPUs, those that were ended, and those left alone and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line

if TYPE_CHECKING:
    from sojourn.verbs.explain.holders import Holder
    from sojourn.verbs.explain.reap import Reap

LABELS = {"orphan": "orphan", "run": "run", "system": "system", "unproven": "holder"}


def lines(answer: Reap, columns: int) -> list[str]:
    """The processes, orphans first; what happened to them; then the next command."""
    out = line("site", f"{clean(answer.site)}  {clean(answer.facts.get('host'))}", columns)
    out += holders(answer.holders, int(answer.facts.get("hidden") or 0), columns)
    for what in ("ended", "kept"):
        for row in getattr(answer, what):
            out += line(what, f"{clean(row['name'])} {clean(row['comm'])}: {clean(row['why'])}", columns)
    if not answer.orphans:
        out += line("ok", "no proven leftover processes", columns)
    return [*out, command("next", clean(answer.next))]


def holders(some: Sequence[Holder], hidden: int, columns: int) -> list[str]:
    """One line per process, with the proof that it is left over, or what that proof lacks."""
    from sojourn.verbs.explain.reap import facts

    out: list[str] = []
    for one in some:
        out += line(LABELS[one.kind], clean(facts(one)), columns)
    if hidden:
        who = count(hidden, "process", "processes")
        out += line("hidden", f"{who} of other users (no permission to inspect)", columns)
    return out
