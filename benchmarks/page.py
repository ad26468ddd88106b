"""Pages of measured figures: each section is replaced by who measured it, with machine, load and date, and no other."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path


def put(page: Path, head: str, title: str, about: str, lines: list[str]) -> None:
    """Replace or add the section `title`, and leave the others as they are. `head`: what a new page begins with;
    `lines`: Markdown, no `## ` in it.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else head
    _, *sections = re.split(r"(?m)^(?=## )", old)
    new = "\n".join([f"## {title}", "", about, "", *lines])
    places = [number for number, part in enumerate(sections) if part.startswith(f"## {title}\n")]
    if places:
        sections[places[0]] = new
    else:
        sections.append(new)
    page.write_text("\n\n".join(part.strip() for part in (head, *sections)) + "\n", encoding="utf-8")


def where(load: str) -> str:
    """One line: machine, load, date."""
    return f"{machine()}. Load average {load}. {time.strftime('%Y-%m-%d', time.gmtime())}."


def machine() -> str:
    """Processor, cores, memory, system and Python, in words."""
    model = platform.machine()
    try:
        info = Path("/proc/cpuinfo").read_text()
        model = next(
            (line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), model
        )
    except OSError:  # not Linux
        model = platform.processor() or model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = platform.python_version()
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, Python {python}"
    )


def load_average() -> str:
    """Of the last minute."""
    return f"{os.getloadavg()[0]:.2f}"
