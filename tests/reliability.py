"""docs/reliability.md: what `make campaign` found, with date and machine. Each campaign writes its own section."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from benchmarks import page as pages

PAGE = Path(__file__).parents[1] / "docs/reliability.md"
HEAD = (
    "# Reliability\n\nWritten by `make campaign`. Each section says what one campaign did, what held, where and when.\n"
)


def put(title: str, lines: list[str], took_s: float, page: Path = PAGE) -> None:
    """Replace or add the campaign's section, and leave the others as they are. `lines`: Markdown, no `## ` in it.

    The few trials of `make test` leave docs/reliability.md alone.
    """
    if page == PAGE and os.environ.get("SOJOURN_TEST_SIZE", "test") == "test":
        return
    about = pages.where(f"{pages.load_average()} at the end; {max(1, round(took_s / 60))} minutes")
    with page.open("ab") as whole:  # campaigns run beside each other
        fcntl.flock(whole, fcntl.LOCK_EX)
        pages.put(page, HEAD, title, about, lines)


def table(head: str, rows: dict[str, int]) -> list[str]:
    """Two columns."""
    return [f"| {head} | |", "| --- | ---: |", *(f"| {name} | {count:,} |" for name, count in rows.items())]
