"""docs/reliability.md: what `make soak` found, with date and machine. A campaign writes its section, nobody by hand."""

import re
import time
from pathlib import Path

from benchmarks.__main__ import load_average, machine

PAGE = Path(__file__).parents[1] / "docs/reliability.md"
HEAD = "# Reliability\n\nWritten by `make soak`. A section says what one campaign did, what held, where and when.\n"


def put(title: str, lines: list[str], took_s: float, page: Path = PAGE) -> None:
    """Replace or add the campaign's section, and leave the others as they are. `lines`: Markdown, no `## ` in it."""
    when = time.strftime("%Y-%m-%d", time.gmtime())
    about = f"{machine()}. Load average {load_average()}. {max(1, round(took_s / 60))} minutes. {when}."
    old = page.read_text(encoding="utf-8") if page.exists() else HEAD
    head, *sections = re.split(r"(?m)^(?=## )", old)
    new = "\n".join([f"## {title}", "", about, "", *lines]).rstrip() + "\n\n"
    sections = [part.rstrip() + "\n\n" for part in sections]
    places = [number for number, part in enumerate(sections) if part.startswith(f"## {title}\n")]
    if places:
        sections[places[0]] = new
    else:
        sections.append(new)
    page.write_text((head.rstrip() + "\n\n" + "".join(sections)).rstrip() + "\n", encoding="utf-8")


def table(head: str, rows: dict[str, int]) -> list[str]:
    """Two columns."""
    return [f"| {head} | |", "| --- | ---: |", *(f"| {name} | {count:,} |" for name, count in rows.items())]
