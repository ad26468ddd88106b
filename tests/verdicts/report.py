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
killed, whoever says that something is wrong with the run is wrong. The minutes are those of all trials, added up.

One trial again: `.venv/bin/python -m tests.verdicts --fault NAME --seed N`. Several, that go on where they stopped:
`--trials 20 --ledger FILE --at-once 5 --for-s 400`; this section from what they wrote down: `--ledger FILE --page`."""
HEAD = ("fault", "trials", "right", "undetermined", "wrong", "less a probe", "undetermined then", "wrong then")


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Markdown, without the title."""
    out = [ABOUT, "", f"| {' | '.join(HEAD)} |", "| --- |" + " ---: |" * (len(HEAD) - 1)]
    missed = sum(not row["verdict"] for row in rows)
    rows = [row for row in rows if row["verdict"]]
    for fault in dict.fromkeys(row["fault"] for row in rows):
        own = [row for row in rows if row["fault"] == fault]
        then = sum(row["wrong"].count(" without ") for row in own)
        wrong = sum(bool(row["wrong"]) and " without " not in row["wrong"] for row in own)
        is_open = sum(row["verdict"] == "undetermined" for row in own)
        withheld, undetermined = sum(row["withheld"] for row in own), sum(len(row["open"]) for row in own)
        counts = (len(own), len(own) - wrong, is_open, wrong, withheld, undetermined, then)
        out.append("| " + " | ".join([fault.replace("_", " "), *(f"{count:,}" for count in counts)]) + " |")
    took = sorted(row["why_s"] for row in rows if row["why_s"])
    loads = sorted(row["load"] for row in rows)
    if took:
        out += [
            "",
            f"`why` took {took[len(took) // 2]:.1f} s in the middle, {took[-1]:.1f} s at most, under loads from "
            f"{loads[0]:g} to {loads[-1]:g}.",
        ]
    if missed:
        out += ["", f"Trials that came to no verdict, since the fault could not be planted in time: {missed}."]
    return out
