"""The section of docs/reliability.md that a ledger of trials gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TITLE = "Each fault has its own verdict, whatever is withheld"
ABOUT = """\
A run is launched by `sojourn run`, a fault is planted on it for real, and `why RUN` is asked while it stands. The same
evidence is then judged again without each of its probes in turn. Wrong is every other verdict, and `healthy` where
something is wrong; without a probe the right verdict and "undetermined" are right. What is cut, killed, filled or
rewritten, and when, comes from the seed. In the rows of a healthy run, of a line that is cut and of a keeper that is
killed, whoever says that something is wrong with the run is wrong.

One trial again: `.venv/bin/python -m tests.verdicts --fault NAME --seed N`. Several, that go on where they stopped:
`--trials 20 --ledger FILE --for-s 500`."""


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Markdown, without the title."""
    out = [
        ABOUT,
        "",
        "| fault | trials | wrong | judged again | undetermined then |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    missed = sum(not row["verdict"] for row in rows)
    rows = [row for row in rows if row["verdict"]]
    for fault in dict.fromkeys(row["fault"] for row in rows):
        own = [row for row in rows if row["fault"] == fault]
        counts = (len(own), _count(own, "wrong"), sum(r["withheld"] for r in own), sum(len(r["open"]) for r in own))
        out.append("| " + " | ".join([fault.replace("_", " "), *(f"{count:,}" for count in counts)]) + " |")
    took = sorted(row["why_s"] for row in rows if row["why_s"])
    loads = sorted(row["load"] for row in rows)
    if took:
        out += [
            "",
            f"`why` took {took[len(took) // 2]:.1f} s in the middle, {took[-1]:.1f} s at most, under loads from ",
        ]
        out[-1] += f"{loads[0]:g} to {loads[-1]:g}."
    if missed:
        out += ["", f"Trials that came to no verdict, since the fault could not be planted in time: {missed}."]
    return out


def _count(rows: Sequence[dict[str, Any]], key: str) -> int:
    return sum(bool(row[key]) for row in rows)
