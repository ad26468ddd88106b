"""What `protect: saves` costs: a save of 256 MB, in place and synced, and written aside by hand, synced and renamed,
against the same save under the hook.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import Row

TITLE = "A protected save against one that is made whole by hand"
ROUNDS = 7
BYTES = 256 << 20
_HOOK = Path(__file__).resolve().parent.parent / "src/sojourn/train/hook"
_SAVE = """
import os, sys, time
import numpy as np


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


data = np.random.default_rng(0).integers(0, 255, int(sys.argv[1]), dtype=np.uint8)
np.save("m.npy", data)
sync("m.npy")
began = time.perf_counter()
name = "aside.npy" if sys.argv[2] == "aside" else "m.npy"
np.save(name, data)
if sys.argv[2] != "plain":
    sync(name)
if sys.argv[2] == "aside":
    os.rename(name, "m.npy")
if sys.argv[2] != "plain":
    sync(".")
print(time.perf_counter() - began)
"""


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The second of two saves over one file, each time in a Python of its own."""

    def saved(how: str, hook: str) -> float:
        env = {**os.environ, "PYTHONPATH": hook}
        argv = [sys.executable, "-c", _SAVE, str(BYTES), how]
        return float(subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=True, text=True).stdout)

    yield {
        "plain": lambda: saved("plain", ""),
        "synced": lambda: saved("sync", ""),
        "aside": lambda: saved("aside", ""),
        "protected": lambda: saved("plain", str(_HOOK)),
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and the protected save in synced ones."""
    return [
        Row("`np.save` of 256 MB over a file", medians["plain"], "s"),
        Row("the same, then synced", medians["synced"], "s"),
        Row("written aside by hand, synced and renamed", medians["aside"], "s"),
        Row("the same under `protect: saves`", medians["protected"], "s"),
        Row("protected, in those by hand", medians["protected"] / medians["aside"], "x", limit=1.25, goal=1.1),
    ]
