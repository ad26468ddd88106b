"""The outcome of sealing a run, and the runs in each state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line, table
from sojourn.core.artifact import printable
from sojourn.store.layout import STATES
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.retrieve.seal import Sealed, SealStates


def lines(answer: Sealed, columns: int) -> list[str]:
    """Its new location, any problems, the next command."""
    is_sealed = answer.state == "sealed"
    label = "sealed" if is_sealed else "rejected"
    out = line(label, f"{clean(answer.run)}  {count(answer.files, 'file')}  {say_bytes(answer.bytes)}", columns)
    out += line("folder", clean(answer.path), columns)
    for why in answer.why:
        out += line("bad", clean(why), columns)
    for artifact in answer.artifacts:
        for remark in artifact.remarks if artifact.ok else ():
            out += line("remark", f"{clean(printable(artifact.path))}: {clean(remark)}", columns)
    if answer.left:
        out += line("left", f"{count(len(answer.left), 'file')} stay in active, by the layout", columns)
    if is_sealed:
        name = clean(answer.run)
        out.append(command("next", f"sojourn accept {name} --manifest {name}.manifest.json --to FILE (elsewhere)"))
    return out


def states(answer: SealStates, columns: int) -> list[str]:
    """One line per run."""
    if not answer.runs:
        return [f"no runs in {clean(answer.root)}"]
    rows = []
    for run, found in answer.runs.items():
        cells = [str(len(found[state])) if state in found else "" for state in STATES]
        rows.append([clean(run), *("yes" if cell == "1" else cell for cell in cells)])
    return table(["run", *STATES], rows, columns)
