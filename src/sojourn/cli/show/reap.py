"""Who holds the cards of a machine, what was ended, and what was left alone and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line

if TYPE_CHECKING:
    from sojourn.verbs.explain.holders import Holder
    from sojourn.verbs.explain.reap import Reap


def lines(answer: Reap, columns: int) -> list[str]:
    """The processes, orphans first; what became of them; then the next command."""
    out = line("site", f"{clean(answer.site)}  {clean(answer.facts.get('host'))}", columns)
    out += holders(answer.holders, int(answer.facts.get("hidden") or 0), columns)
    for what in ("ended", "kept"):
        for row in getattr(answer, what):
            out += line(what, f"{clean(row['name'])} {clean(row['comm'])}: {clean(row['why'])}", columns)
    if not answer.orphans:
        out += line("fine", "nothing that is proven to be left over", columns)
    return [*out, command("next", clean(answer.next))]


def holders(some: Sequence[Holder], hidden: int, columns: int) -> list[str]:
    """One process a line, with the proof or what lacks for one."""
    from sojourn.verbs.explain.reap import facts

    labels = {"orphan": "orphan", "run": "run", "system": "system", "unproven": "holder"}
    out: list[str] = []
    for one in some:
        out += line(labels[one.kind], clean(facts(one)), columns)
    if hidden:
        out += line("hidden", f"{count(hidden, 'process', 'processes')} of others that we may not look into", columns)
    return out
