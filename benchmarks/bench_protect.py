"""What `protect: saves` costs: a save of 256 MB under the hook, against the same save in place and then synced, and
against one that is written aside by hand, synced and renamed.

A disk is twice as fast a minute later, so medians of different moments say nothing. Each ratio is of four saves in a
row, other, protected, protected, other, with nothing left to be written before each; the median of these is told.
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
ROUNDS = 15
BYTES = 256 << 20
_HOOK = Path(__file__).resolve().parent.parent / "src/sojourn/train/hook"
_SAVE = """
import os, sys, time
import numpy as np


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


protected, plain = np.save, np.save.__sojourn_plain__
data = np.random.default_rng(0).integers(0, 255, int(sys.argv[1]), dtype=np.uint8)
for how in map(str.strip, sys.stdin):
    os.sync()
    began = time.perf_counter()
    name = how + ".npy"
    (protected if how == "protected" else plain)("aside.new.npy" if how == "aside" else name, data)
    if how == "synced":
        sync(name)
    if how == "aside":
        sync("aside.new.npy")
        os.rename("aside.new.npy", name)
        sync(".")
    print(time.perf_counter() - began, flush=True)
"""


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """Saves over a file that is there, all in one Python, which has the hook."""
    argv = [sys.executable, "-c", _SAVE, str(BYTES)]
    env = {**os.environ, "PYTHONPATH": str(_HOOK)}
    with subprocess.Popen(argv, cwd=folder, env=env, stdin=-1, stdout=-1, text=True, bufsize=1) as saver:
        asked, answers = saver.stdin, saver.stdout
        assert asked is not None and answers is not None

        def saved(how: str) -> float:
            print(how, file=asked)
            return float(answers.readline())

        def against(how: str) -> float:
            before, first, second, after = map(saved, (how, "protected", "protected", how))
            return (first + second) / (before + after)

        yield {
            "plain": lambda: saved("plain"),
            "synced": lambda: saved("synced"),
            "aside": lambda: saved("aside"),
            "protected": lambda: saved("protected"),
            "in synced": lambda: against("synced"),
            "in aside": lambda: against("aside"),
        }
        asked.close()


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and the protected save in the two others."""
    return [
        Row("`np.save` of 256 MB over a file", medians["plain"], "s"),
        Row("the same, then synced", medians["synced"], "s"),
        Row("written aside by hand, synced and renamed", medians["aside"], "s"),
        Row("the same under `protect: saves`", medians["protected"], "s"),
        # It waits for the disk once more, for the folder's new entry: only told, since the save in place is not whole.
        Row("protected, in saves that are synced", medians["in synced"], "x"),
        Row("protected, in saves aside by hand", medians["in aside"], "x", limit=1.25, goal=1.1),
    ]
