"""Run the benchmarks, print their tables, and write docs/performance.md.

    .venv/bin/python -m benchmarks [NAME ...]

Without names all of `benchmarks/bench_*.py` are run and the page is written; with names they are only printed.
Exit status: 0 every promise is kept, 1 one is broken, 2 there is no benchmark of that name.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from types import ModuleType

from benchmarks.protocol import Row

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs/performance.md"
ROUNDS = 9


def main() -> int:
    """Measure, print, write."""
    every = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    wanted = sys.argv[1:] or every
    if unknown := [name for name in wanted if name not in every]:
        print(f"bench: there is no {unknown[0]}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    load = load_average()
    sections, is_kept = [], True
    for name in wanted:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        rows, rounds = measured(module, name)
        is_kept = is_kept and all(row.is_kept for row in rows)
        sections.append(section(module.TITLE, rows, rounds))
        print(sections[-1])
    about = (
        f"{machine()}. Load average {load} before, {load_average()} after. {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    print(about)
    if wanted == every:
        PAGE.write_text(page(about, sections), encoding="utf-8")
    return 0 if is_kept else 1


def measured(module: ModuleType, name: str) -> tuple[list[Row], int]:
    """The module's rows from the medians of all readings, and the number of rounds."""
    rounds = getattr(module, "ROUNDS", ROUNDS)
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder, module.prepare(Path(folder)) as measures:
        readings: dict[str, list[float]] = {what: [] for what in measures}
        for number in range(rounds + 1):
            order = list(measures) if number % 2 else list(reversed(measures))
            for what in order:
                value = measures[what]()
                if number:  # the first round pays for cold caches
                    readings[what].append(value)
        return module.rows({what: median(values) for what, values in readings.items()}), rounds


def section(title: str, rows: list[Row], rounds: int) -> str:
    """One Markdown table."""
    cells: list[tuple[str, ...]] = [("measured", "value", "promise", "goal", "")]
    for row in rows:
        limits = [f"{shown(limit, row.unit)}" if limit is not None else "" for limit in (row.limit, row.goal)]
        cells.append((row.what, shown(row.value, row.unit), *limits, row.verdict))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([f"## {title}", "", f"Medians of {rounds} rounds, taken in turn.", "", *lines, ""])


def shown(value: float, unit: str) -> str:
    """The figure with three digits that mean something: 12.3 ms, 4.20 x."""
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def page(about: str, sections: list[str]) -> str:
    """docs/performance.md."""
    head = [
        "# Performance",
        "",
        "Written by `make bench`, which fails when a promise is broken.",
        "`good`: the goal is met too; `kept`: the promise alone.",
        "",
        about,
        "",
    ]
    return "\n".join([*head, *sections])


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


if __name__ == "__main__":
    sys.exit(main())
