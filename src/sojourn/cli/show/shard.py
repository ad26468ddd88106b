"""The shards of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, count, line
from sojourn.core.artifact import printable
from sojourn.wire.units import say_bytes, say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.datasets.shard import Sharded

_SHOWN = 5


def lines(answer: Sharded, columns: int) -> list[str]:
    """How many, the name that WebDataset takes, and what was left out."""
    counts = f"{count(answer.samples, 'sample')}  {count(answer.files, 'file')}  {say_bytes(answer.bytes)}"
    made = f"{count(len(answer.shards), 'shard')}  {counts}  in {say_seconds(answer.seconds)}"
    out = line("packed", made, columns)
    if answer.kept:
        out += line("kept", f"{count(answer.kept, 'shard')} of an earlier call, unchanged", columns)
    out += line("shards", clean(answer.pattern), columns)
    for path, why in answer.left_out[:_SHOWN]:
        out += line("left out", f"{clean(printable(path))}: {why}", columns)
    if len(answer.left_out) > _SHOWN:
        out += line("left out", f"{count(len(answer.left_out) - _SHOWN, 'file')} more (--json lists all)", columns)
    return out
