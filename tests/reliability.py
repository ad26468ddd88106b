"""docs/reliability.md: what `make soak` found, with date and machine. A campaign writes its section, nobody by hand."""

from __future__ import annotations

from pathlib import Path

from benchmarks import page as pages

PAGE = Path(__file__).parents[1] / "docs/reliability.md"
HEAD = "# Reliability\n\nWritten by `make soak`. A section says what one campaign did, what held, where and when.\n"


def put(title: str, lines: list[str], took_s: float, page: Path = PAGE) -> None:
    """Replace or add the campaign's section, and leave the others as they are. `lines`: Markdown, no `## ` in it."""
    about = pages.where(f"{pages.load_average()} at the end; {max(1, round(took_s / 60))} minutes")
    pages.put(page, HEAD, title, about, lines)


def table(head: str, rows: dict[str, int]) -> list[str]:
    """Two columns."""
    return [f"| {head} | |", "| --- | ---: |", *(f"| {name} | {count:,} |" for name, count in rows.items())]
