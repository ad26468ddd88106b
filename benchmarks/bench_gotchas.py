"""What a question to the catalog costs: `sojourn gotchas search`, the compiled catalog being there already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import Row, seconds

TITLE = "`sojourn gotchas search` against a bare Python start"
QUESTIONS = {"english": "loss is nan after resume", "chinese": "关机后数据还在吗"}


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A question in each language, and the same Python doing nothing. The first search makes what later ones read."""

    def ask(question: str) -> float:
        return seconds([sys.executable, "-m", "sojourn", "gotchas", "search", question], cwd=folder)

    ask(QUESTIONS["english"])
    yield {
        "bare": lambda: seconds([sys.executable, "-c", "pass"], cwd=folder),
        "english": lambda: ask(QUESTIONS["english"]),
        "chinese": lambda: ask(QUESTIONS["chinese"]),
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and how many bare starts they are."""
    bare = medians["bare"]
    found = [Row("`python -c pass`", bare, "s")]
    for language in QUESTIONS:
        found += [
            Row(f"a question, {language}", medians[language], "s"),
            Row(f"a question, {language}, in bare starts", medians[language] / bare, "x", limit=10, goal=8),
        ]
    return found
