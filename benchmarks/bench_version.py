"""What `sojourn --version` costs: the start of Python and of our package, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import Row, seconds

TITLE = "`sojourn --version` against a bare Python start"
ROUNDS = 21


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The installed console script, and the same Python doing nothing."""
    script = str(Path(sys.executable).parent / "sojourn")
    yield {
        "bare": lambda: seconds([sys.executable, "-c", "pass"], cwd=folder),
        "version": lambda: seconds([script, "--version"], cwd=folder),
        "module": lambda: seconds([sys.executable, "-m", "sojourn", "--version"], cwd=folder),
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and how many bare starts they are."""
    bare = medians["bare"]
    return [
        Row("`python -c pass`", bare, "s"),
        Row("`sojourn --version`", medians["version"], "s"),
        Row("`sojourn --version`, in bare starts", medians["version"] / bare, "x", limit=5, goal=3),
        Row("`python -m sojourn --version`, in bare starts", medians["module"] / bare, "x", limit=5, goal=3),
    ]
