"""The outcome of `reconcile`: three numbers, then what is missing, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sojourn.verbs.sweep.reconcile import Reconciled

_LISTED = 8  # names of cells listed after a cause
_WORDS = (
    ("present", "not pulled yet"),
    ("running", "running"),
    ("waiting", "waiting"),
    ("missing", "missing"),
    ("failed", "failed"),
    ("never_started", "never started"),
    ("stopped", "stopped"),
    ("pruned", "pruned"),
    ("unknown", "unknown"),
)


def lines(answer: Reconciled, columns: int) -> list[str]:
    """Expected, present and loaded; then each other fate with its cells, those of one cause together."""
    out = line("sweep", clean(answer.id), columns)
    total, loaded, present = len(answer.fates), len(answer.of("loaded")), len(answer.of("loaded", "present"))
    out += line("cells", f"{total} expected, {present} present, {loaded} loaded", columns)
    causes = answer.causes()
    for what, words in _WORDS:
        some = [(why, cells) for fate, _, why, cells in causes if fate == what] or [("", answer.of(what))]
        for why, cells in some:
            if cells:
                named = ", ".join(clean(cell) for cell in cells[:_LISTED])
                more = f" and {len(cells) - _LISTED} more" if len(cells) > _LISTED else ""
                said = f": {clean(why)}" if why else ""
                out += line("", f"{len(cells)} {words}{said}: {named}{more}", columns)
    for one in answer.duplicates:
        places = " and on ".join(map(_place, one["progress"]))
        out += line("twice", f"{clean(one['run'])} was started on {places}", columns)
    if answer.relaunched:
        out += line("repair", f"{count(len(answer.relaunched), 'cell')} requested again", columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out


def _place(one: Mapping[str, Any]) -> str:
    """One of two copies, with how far it has come."""
    step = "no step known" if one["step"] is None else f"step {one['step']}"
    kept = f", checkpoint {clean(one['checkpoint'])}" if one["checkpoint"] else ""
    return f"{clean(one['site'])} ({one['state']}, {step}{kept})"
