"""What a benchmark file gives the runner, and how one command is timed.

A file `benchmarks/bench_<what>.py` has:

- `TITLE: str`: the heading of its table, a claim in words;
- `prepare(folder: Path)`: a context manager that sets up in a fresh folder and yields `{name: measure}`. Each
  `measure()` takes one reading (seconds, bytes, anything) and returns it. What it started is gone at the end;
- `rows(medians: dict[str, float]) -> list[Row]`: what the medians of the readings say;
- optionally `ROUNDS: int` (9): how often each is read. The runner goes round all measures in turn, so that a change in
  the machine's load falls on all of them alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST_S = 120.0


@dataclass(frozen=True)
class Row:
    """One figure. `limit`: what we promise, `goal`: what we would like; lower is better, None: nothing said."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    goal: float | None = None

    @property
    def is_kept(self) -> bool:
        """The promise holds, or none was made."""
        return self.limit is None or self.value <= self.limit

    @property
    def verdict(self) -> str:
        """One word for the table."""
        if not self.is_kept:
            return "BROKEN"
        return "" if self.goal is None else "good" if self.value <= self.goal else "kept"


def seconds(argv: Sequence[str], **options: object) -> float:
    """Wall seconds of one run of `argv` without input or output; `options` go to subprocess.run (env, cwd).

    Raises: CalledProcessError when it fails, since a failing command says nothing about speed; TimeoutExpired.
    """
    began = time.perf_counter()
    subprocess.run(  # type: ignore[call-overload]
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=LONGEST_S,
        **options,
    )
    return time.perf_counter() - began


def lab_lacks() -> str:
    """Why no real box can be had on this machine (`tests/lab`); "" where one can."""
    try:
        from tests.lab import lab
    except ImportError as error:
        return str(error)
    return lab.missing()


class Desk:
    """A user with private records in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state/sojourn"
        self.state.mkdir(parents=True)
        homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CONFIG", "DATA", "CACHE")}
        self.env = {**os.environ, **homes, "HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # with byte code kept, as an installed program has it
        self.env["XDG_RUNTIME_DIR"] = str(folder)
        self.sojourn = str(Path(sys.executable).parent / "sojourn")

    def say(self, *words: str) -> float:
        """Seconds of one command."""
        return seconds([self.sojourn, *words], cwd=self.folder, env=self.env)
