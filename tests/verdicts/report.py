"""The section of docs/reliability.md that a ledger of trials gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TITLE = "Each fault has its own verdict, whatever is withheld"
ABOUT = """\
`sojourn run` launches a run, a real fault is planted on it, and `why RUN` is asked while it lasts. The same evidence is
then judged again without each of its probes in turn. Any other verdict is wrong, and so is `healthy` if something is
wrong; without a probe both the right verdict and "undetermined" are right. What is cut, killed, filled or rewritten,
and when, comes from the seed. In the rows of a healthy run, a cut connection, a killed keeper and a fault that the run
survived (an error caught, a helper killed, a warning, a mount that mended, a signal handled), it is wrong to blame the
run. The minutes are the total of all trials.

Repeat a trial: `.venv/bin/python -m tests.verdicts --fault NAME --seed N`. Several, resumed where they stopped:
`--trials 20 --ledger FILE --at-once 5 --for-s 400`; this section from their records: `--ledger FILE --page`."""
HEAD = ("fault", "trials", "right", "undetermined", "wrong", "without a probe", "then undetermined", "then wrong")


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
            f"`why` took {took[len(took) // 2]:.1f} s at the median, {took[-1]:.1f} s at most, under loads from "
            f"{loads[0]:g} to {loads[-1]:g}.",
        ]
    if missed:
        out += ["", f"Trials without a verdict, because the fault could not be planted in time: {missed}."]
    return out
