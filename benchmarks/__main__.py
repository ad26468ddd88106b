"""Run the benchmarks, print their tables, and write docs/performance.md.

    .venv/bin/python -m benchmarks [NAME ...]

Without names all of `benchmarks/bench_*.py` are run. Each replaces its own section of the page.
Exit status: 0 every promise is kept, 1 one is broken, 2 there is no benchmark of that name.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from statistics import median
from types import ModuleType

from benchmarks.page import load_average, put, where
from benchmarks.protocol import Row

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs/performance.md"
ROUNDS = 9
HEAD = """# Performance

Written by `make bench`, which fails when a promise is broken.
`good`: the goal is met too; `kept`: the promise alone.
"""


def main() -> int:
    """Measure, print, write."""
    every = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    wanted = sys.argv[1:] or every
    if unknown := [name for name in wanted if name not in every]:
        print(f"bench: there is no {unknown[0]}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    is_kept = True
    for name in wanted:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        load = load_average()
        rows, rounds = measured(module, name)
        is_kept = is_kept and all(row.is_kept for row in rows)
        lines = table(rows, rounds)
        about = where(f"{load} before, {load_average()} after")
        print("\n".join([f"## {module.TITLE}", "", about, "", *lines, ""]), flush=True)
        put(PAGE, HEAD, module.TITLE, about, lines)
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


def table(rows: list[Row], rounds: int) -> list[str]:
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
    return [f"Medians of {rounds} rounds, taken in turn.", "", *lines]


def shown(value: float, unit: str) -> str:
    """The figure with three digits that mean something: 12.3 ms, 4.20 x."""
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


if __name__ == "__main__":
    sys.exit(main())
