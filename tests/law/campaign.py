"""Many orders, in processes of their own, since a command takes on the environment of whoever gives it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from sojourn.store import parcel
from tests.law import blobs
from tests.law.order import Verdict

ROOT = Path(__file__).resolve().parent.parent.parent


def campaign(
    seeds: Iterable[int],
    keep: Path,
    *,
    jobs: int = 2,
    for_s: float = float("inf"),
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Play the order of each seed; what is left of one that broke lies in `keep`. One that ran out of time is played
    again alone. After `for_s` none is begun.
    """
    end_s = time.monotonic() + for_s
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for seed in seeds:
        waiting.put(seed)
    found: dict[int, Verdict] = {}
    mouth = threading.Lock()

    def work() -> None:
        with _worker(Path(stage), keep) as ask:
            while time.monotonic() < end_s:
                try:
                    verdict = ask(waiting.get_nowait())
                except queue.Empty:
                    return
                with mouth:
                    found[verdict.seed] = verdict
                    if not verdict.is_late:
                        tell(verdict)

    with tempfile.TemporaryDirectory(prefix="sojourn-law-") as stage:
        prepare(Path(stage))
        with ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(work) for _ in range(jobs)]:
                done.result()
        late = sorted(seed for seed, verdict in found.items() if verdict.is_late)
        if late:
            with _worker(Path(stage), keep) as ask:
                for seed in late:
                    found[seed] = ask(seed)
                    tell(found[seed])
    return [found[seed] for seed in sorted(found)]


def prepare(stage: Path) -> None:
    """What all orders share: the contents that are written, and the keeper that a box has from before."""
    blobs.make(stage / "blobs")
    (stage / "keepers").mkdir()
    name, data = parcel.keeper_bytes()
    (stage / "keepers" / name).write_bytes(data)


@contextmanager
def _worker(stage: Path, keep: Path) -> Iterator[Callable[[int], Verdict]]:
    """A process that plays one order after the other. Raises: RuntimeError where it dies of one."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.law.worker", str(stage), str(keep)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        text=True,
    )

    def ask(seed: int) -> Verdict:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{seed}\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that played seed {seed} ended with status {child.wait()}")
        return Verdict.of(json.loads(line))

    with child:
        yield ask
        assert child.stdin is not None
        child.stdin.close()
