"""What `sojourn verify` costs: a cold tree of checkpoints against the slower of its disk and of hashing on every core.

`SOJOURN_BENCH_GB` says how large the tree is (10, or a third of what is free). Both limits are measured in the same
rounds, the disk's through the page cache and past it (the better one counts), and every reading begins with a cold
page cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from benchmarks.protocol import Row

TITLE = "`sojourn verify` of a tree of checkpoints, cold, against min(disk, cores x sha256)"
ROUNDS = 3
FILE_BYTES = 512 << 20
TENSOR_BYTES = 16 << 20
LONGEST_S = 600.0
CORES = len(os.sched_getaffinity(0))


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The tree, and five readings: both limits in GB/s, `verify` in GB/s, its peak of memory, and a second `verify`."""
    free_bytes = shutil.disk_usage(folder).free
    wanted_bytes = int(float(os.environ.get("SOJOURN_BENCH_GB", "10")) * 1e9)
    tree = folder / "tree"
    tree.mkdir()
    _write(tree, max(min(wanted_bytes, free_bytes // 3) // FILE_BYTES, 2))
    files = sorted(tree.iterdir())
    size_bytes = sum(path.stat().st_size for path in files)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    peak: list[float] = []

    def verify(*words: str) -> float:
        _cool(files)
        argv = [sys.executable, "-m", "sojourn", "verify", str(tree), "--json", *words]
        began_s = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
            found = _watched(process)
        if process.returncode:
            raise RuntimeError(f"verify ended with {process.returncode}")
        if words:
            peak[:] = [found]
        return size_bytes / (time.perf_counter() - began_s) / 1e9

    yield {
        "disk": lambda: _disk(files, size_bytes),
        "hash": _hash,
        "verify": lambda: verify("--fresh"),
        "peak": lambda: peak[0] if peak else verify("--fresh") * 0 + peak[0],
        "again": lambda: size_bytes / 1e9 / verify(),
        "size": lambda: size_bytes / 1e9,
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Speeds, how many times longer than the limit allows, and memory."""
    limit = min(medians["disk"], medians["hash"])
    return [
        Row("the tree", medians["size"], "GB"),
        Row(f"disk, read cold by {CORES} threads", medians["disk"], "GB/s"),
        Row(f"sha256 on {CORES} cores", medians["hash"], "GB/s"),
        Row("`sojourn verify --fresh`", medians["verify"], "GB/s"),
        Row("its time, in times of the slower of both", limit / medians["verify"], "x", limit=1.25),
        Row("peak memory of all its processes, without mapped files", medians["peak"], "MiB", limit=528, goal=400),
        Row("`sojourn verify` again, nothing changed", medians["again"], "s", limit=2, goal=0.5),
    ]


def _write(tree: Path, count: int) -> None:
    """`count` files in turn of PyTorch, safetensors and numpy, on the disk when this returns."""
    chance = np.random.default_rng(0)
    state: dict[str, Any] = {
        f"layer{n}.weight": chance.standard_normal(TENSOR_BYTES // 4, dtype=np.float32)
        for n in range(FILE_BYTES // TENSOR_BYTES)
    }
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    for n in range(count):
        state["layer0.weight"][:10] = n
        if n % 5 == 4:
            path = tree / f"{n:03}.npz"
            np.savez(path, **state)
        elif n % 2 or torch is None:
            path = tree / f"{n:03}.safetensors"
            safetensors.numpy.save_file(state, path)
        else:
            path = tree / f"{n:03}.pt"
            torch.save({key: torch.from_numpy(value) for key, value in state.items()}, path)
        with path.open("rb") as f:
            os.fsync(f.fileno())


def _cool(files: list[Path]) -> None:
    for path in files:
        with path.open("rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _disk(files: list[Path], size_bytes: int) -> float:
    """The better of two ways: through the page cache, and past it where the file system has that."""
    ways = [0, getattr(os, "O_DIRECT", 0)]
    return max(_read_all(files, size_bytes, way) for way in ways[: 1 + bool(ways[1])])


def _read_all(files: list[Path], size_bytes: int, flags: int) -> float:
    _cool(files)

    def read(path: Path) -> None:
        buffer = mmap.mmap(-1, 8 << 20)
        fd = os.open(path, os.O_RDONLY | flags)
        try:
            while os.readv(fd, [buffer]) == len(buffer):
                pass
        finally:
            os.close(fd)

    began_s = time.perf_counter()
    try:
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(read, files))
    except OSError:
        return 0.0
    return size_bytes / (time.perf_counter() - began_s) / 1e9


def _hash() -> float:
    piece = os.urandom(1 << 20)

    def work(count: int) -> None:
        h = hashlib.sha256()
        for _ in range(count):
            h.update(piece)

    began_s = time.perf_counter()
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(work, [1500] * CORES))
    return CORES * 1500 * len(piece) / (time.perf_counter() - began_s) / 1e9


def _watched(process: subprocess.Popen[bytes]) -> float:
    """MiB of anonymous memory of the process and all its children, at their highest."""
    highest = 0
    ender = threading.Timer(LONGEST_S, process.kill)
    ender.start()
    try:
        while process.poll() is None:
            highest = max(highest, sum(_anonymous_bytes(pid) for pid in _family(process.pid)))
            time.sleep(0.05)
    finally:
        ender.cancel()
    return highest / (1 << 20)


def _family(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        words = [Path(f"/proc/{pid}/task/{task}/children").read_text().split() for task in tasks]
    except OSError:
        return []
    return [pid, *(member for row in words for word in row for member in _family(int(word)))]


def _anonymous_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(rows.get("RssAnon", "0 kB").split()[0]) * 1024
