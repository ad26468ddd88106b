"""A data set on a fast disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line
from sojourn.core.artifact import printable
from sojourn.wire.units import say_bytes, say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.datasets.stage import Staged

_SHOWN = 5


def lines(answer: Staged, columns: int) -> list[str]:
    """What was copied, what could not be, where it lies, and whether it is there after a stop."""
    target = clean(printable(answer.target))
    if answer.what in ("stopped", "idle"):
        words = (
            "what was copied is kept for the same command" if answer.what == "stopped" else "nothing is being copied"
        )
        return [*line(answer.what, f"{target}: {words}", columns), command("next", clean(answer.next))]
    out: list[str] = []
    whole = f"{count(answer.files, 'file')}  {say_bytes(answer.bytes)}"
    if answer.what == "unchanged":
        out += line("skipped", f"already staged: {whole}", columns)
    elif answer.what == "staged":
        made = f"{count(answer.copied_files, 'file')}  {say_bytes(answer.copied_bytes)}"
        out += line("copied", f"{made}  in {say_seconds(answer.seconds)}", columns)
        if answer.kept_files:
            out += line("kept", f"{count(answer.kept_files, 'file')} of an earlier call, unchanged", columns)
        out += line("verified", f"{whole}, read back and compared by SHA-256", columns)
    else:
        out += _bad(answer, columns)
    out += _rows("left out", answer.left_out, answer.left_out_count, columns)
    if not answer.ok:
        return [*out, command("next", clean(answer.next))]
    out += line("staged", target, columns)
    if answer.is_in_memory:
        words = "is memory: the copy counts as used RAM, and a restart deletes it"
        return out + line("memory", f"{clean(answer.mount['point'])} {words}", columns)
    word = {True: "keeps", False: "loses", None: "unsure"}[answer.survives["survives"]]
    how = f"on release: {clean(answer.survives['verb'])}; {clean(answer.survives['why'])}"
    return out + line(word, f"{target}  ({how})", columns)


def _bad(answer: Staged, columns: int) -> list[str]:
    words = {
        "incomplete": "not staged: some of the source cannot be copied",
        "changing": "not staged: the source changed each time while it was copied",
    }[answer.what]
    return [*line("problem", words, columns), *_rows("", answer.problems, answer.problems_count, columns)]


def _rows(label: str, rows: object, total: int, columns: int) -> list[str]:
    out: list[str] = []
    shown = list(rows)[:_SHOWN]  # type: ignore[call-overload]
    for row in shown:
        out += line(label, f"{clean(printable(row['path']))}: {clean(row['why'])}", columns)
    if total > len(shown):
        out += line(label, f"{count(total - len(shown), 'entry', 'entries')} more (see --json)", columns)
    return out
