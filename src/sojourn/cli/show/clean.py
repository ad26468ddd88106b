"""What is left on a box, or what was removed from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line, table
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.release.clean import Clean, Left

HEAD = ("WHAT", "SIZE", "INODES", "HOME", "KEEP")


def lines(answer: Clean, columns: int) -> list[str]:
    """A table with sizes, why each may not be removed, totals, what was acknowledged, the next command."""
    out: list[str] = []
    if answer.removed:
        out += _table(answer.removed, columns)
        out += ["", *line("deleted", f"{_total(answer.removed)} from {clean(answer.site)}", columns)]
    if answer.left:
        out += ["", *line("left", "on the box:", columns)] if answer.removed else []
        out += _table(answer.left, columns)
        out += ["", *line("total", _total(answer.left), columns)]
    for label, texts in (("missing", answer.acknowledged), ("gave up", answer.abandoned)):
        for text in texts:
            out += line(label, clean(text), columns)
    if not out:
        out = [f"{clean(answer.site)} holds nothing from sojourn"]
    return [*out, command("next", clean(answer.next))] if answer.next else out


def _table(some: Sequence[Left], columns: int) -> list[str]:
    rows = [
        (
            f"{one.kind}/{clean(_short(one.name))}",
            say_bytes(one.bytes),
            f"{one.inodes:,}",
            one.home,
            clean(one.keep),
        )
        for one in some
    ]
    return table(HEAD, rows, columns, right=(1, 2), leave_out=(2,))


def _short(name: str) -> str:
    """A content name's first letters; a run's name whole."""
    stem, dot, suffix = name.partition(".")
    front, dash, digest = stem.rpartition("-")
    return f"{front}{dash}{digest[:12]}{dot}{suffix}" if len(digest) >= 32 else name


def _total(some: Sequence[Left]) -> str:
    return f"{say_bytes(sum(one.bytes for one in some))} in {count(sum(one.inodes for one in some), 'inode')}"
