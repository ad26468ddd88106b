"""What `sojourn why --log` costs on a log of 100 MB, for the ways of writing one that are slow to read.

`SOJOURN_BENCH_LOG_MB`: another size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import logs
from benchmarks.protocol import Row

TITLE = "`sojourn why --log` of 100 MB, from start to end of the command"
ROUNDS = 3


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The logs; of each the seconds that one `why` takes, and the most memory that any took."""
    size_bytes = int(float(os.environ.get("SOJOURN_BENCH_LOG_MB", "100")) * 1e6)
    peak_mib: list[float] = [0.0]

    def read(path: Path) -> float:
        argv = [sys.executable, "-m", "sojourn", "why", "--log", str(path), "--json"]
        began_s = time.perf_counter()
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        took_s = time.perf_counter() - began_s
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 1:  # 1: a cause was found
            raise RuntimeError(f"why of {path.name} ended with {child.returncode}")
        peak_mib[0] = max(peak_mib[0], used.ru_maxrss / 1024)
        return took_s

    measures: dict[str, Callable[[], float]] = {}
    for kind in logs.KINDS:
        path = folder / f"{kind.replace(' ', '-')}.log"
        logs.write(path, kind, size_bytes)
        measures[kind] = partial(read, path)
    yield {**measures, "memory": lambda: peak_mib[0]}


def rows(medians: dict[str, float]) -> list[Row]:
    """Each kind against the promise, and memory."""
    found = [Row(kind, seconds, "s", limit=3, goal=2) for kind, seconds in medians.items() if kind != "memory"]
    return [*found, Row("the most memory that one took", medians["memory"], "MiB", limit=200, goal=100)]
