"""Many orders, each in a process of its own, since a command takes on the environment of whoever gives it."""

from __future__ import annotations

import functools
import math
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from sojourn.store import parcel
from tests.law import blobs
from tests.law.order import Verdict, play
from tests.law.quick import Answering, keep_loading


def campaign(
    seeds: Iterable[int],
    keep: Path,
    *,
    jobs: int = 2,
    for_s: float = math.inf,
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Play the order of each seed; what is left of one that broke lies in `keep`. One that ran out of time is played
    again alone. After `for_s` none is begun.
    """
    end_s = time.time() + for_s
    with tempfile.TemporaryDirectory(prefix="sojourn-law-") as stage:
        prepare(Path(stage))
        found: dict[int, Verdict] = {}
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            playing = [pool.submit(_one, seed, stage, str(keep), end_s) for seed in seeds]
            for done in as_completed(playing):
                verdict = done.result()
                if verdict is None:
                    continue
                if not verdict.cut or verdict.broken:
                    tell(verdict)
                found[verdict.seed] = verdict
        for seed, verdict in sorted(found.items()):
            again = _one(seed, stage, str(keep)) if verdict.cut and not verdict.broken else None
            if again is not None:
                found[seed] = again
                tell(again)
        return [found[seed] for seed in sorted(found)]


def prepare(stage: Path) -> None:
    """What all orders share: the contents that are written, and the keeper that a box has from before."""
    blobs.make(stage / "blobs")
    (stage / "keepers").mkdir()
    name, data = parcel.keeper_bytes()
    (stage / "keepers" / name).write_bytes(data)


def _one(seed: int, stage: str, keep: str, end_s: float = math.inf) -> Verdict | None:
    if time.time() > end_s:
        return None
    folder = Path(tempfile.mkdtemp(prefix=f"order-{seed}-", dir=stage))
    answering = _prepared(stage)
    verdict = play(seed, folder, blobs.Blobs(Path(stage) / "blobs"), Path(stage) / "keepers", answering)
    if verdict.broken:
        Path(keep).mkdir(parents=True, exist_ok=True)
        shutil.rmtree(Path(keep) / str(seed), ignore_errors=True)
        shutil.copytree(folder, Path(keep) / str(seed), symlinks=True, ignore_dangling_symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
    return verdict


@functools.cache
def _prepared(stage: str) -> Answering:
    """What a worker process does once."""
    keep_loading()
    (keeper,) = (Path(stage) / "keepers").iterdir()
    return Answering(keeper)
