"""The outcome of `sweep`: one line per site, then what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, command, count, line, table

if TYPE_CHECKING:
    from sojourn.verbs.sweep.sweep import Swept

_LISTED = 6  # names of cells listed in a line


def lines(answer: Swept, columns: int) -> list[str]:
    """The sweep, its boxes and their cells, what was done, the next command."""
    out = line("sweep", f"{clean(answer.id)}, {count(answer.cells, 'cell')}", columns)
    parts = [part for part in answer.sites if part.cells]
    if parts:
        rows = [(clean(p.site), str(len(p.cells)), str(p.slots), " ".join(p.gpus)) for p in parts]
        out += table(("SITE", "NEW", "SLOTS", "GPUS"), rows, columns, right=(1, 2), leave_out=(3,))
    for part in parts:
        out += line(
            "", f"{clean(part.site)}: " + _some(part.cells, None if answer.did == "planned" else _LISTED), columns
        )
    out += findings.lines(answer.findings, columns)
    out += line("skipped" if answer.did == "nothing" else answer.did, clean(answer.why), columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out


def _some(cells: tuple[str, ...], most: int | None) -> str:
    more = f" and {len(cells) - most} more" if most is not None and len(cells) > most else ""
    return ", ".join(clean(cell) for cell in cells[:most]) + more
