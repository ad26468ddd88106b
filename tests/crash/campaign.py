"""Many trials side by side: the stage they share, their verdicts, and the figures of all."""

import compileall
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from tests.crash import judge
from tests.crash.hand import PAYLOAD, Stage, Verdict
from tests.crash.schedule import line_schedule, schedule
from tests.crash.sweep_trial import SweepTrial, sweep_schedule
from tests.crash.trial import Trial

ROOT = Path(__file__).parents[2]
# The keeper and its byte code, as a box has them that was used before.
KEEP = """
import sys
from sojourn.box.system import compiled
from sojourn.store import parcel
name, data = parcel.keeper_bytes()
with open(f"{sys.argv[1]}/{name}", "wb") as file:
    file.write(data)
compiled.keep(file.name)
"""
SIDE_BY_SIDE = 4  # they mostly sleep
ENTRY = "[sojourn.transport]\nfaulty = sojourn.testing.faults:Backend\n"
TRAININGS = ((4, 9, 64), (3, 11, 2000), (6, 6, 300), (4, 9, 20000))


@contextmanager
def stage(folder: Path | None = None, *, trainings: bool = True) -> Iterator[Stage]:
    """The stage in a folder, by default a temporary one that is removed. `trainings`: the plays need them."""
    with tempfile.TemporaryDirectory(prefix="sojourn-crash-") as aside:
        place = folder or Path(aside)
        source = place / "source"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        plugin = source / "faulty_line-1.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-line\nVersion: 1\n")
        (plugin / "entry_points.txt").write_text(ENTRY)
        compileall.compile_dir(source, quiet=2)  # as installed: the processes that load artifacts write no byte code
        compiled = place / "compiled"
        needed = TRAININGS if trainings else ()
        whole = {key: uninterrupted(place / "whole" / "-".join(map(str, key)), source, key) for key in needed}
        keepers = place / "keepers"
        keepers.mkdir()
        env = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run([sys.executable, "-c", KEEP, str(keepers)], env=env, check=True, timeout=120)
        yield Stage(source, compiled, whole, _digest(source), keepers)


def _digest(source: Path) -> str:
    """The first letters of the digest of all code there."""
    whole = hashlib.sha256()
    for path in sorted(source.rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


def uninterrupted(folder: Path, source: Path, key: tuple[int, int, int]) -> tuple[bytes, bytes]:
    """(weights.npy, weights in best.pt) of the training that nobody disturbs, without any sojourn around."""
    folder.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("SOJOURN_")}
    env.update(PYTHONPATH=str(source), LEDGER=str(folder / "ledger"), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    argv = [sys.executable, str(PAYLOAD), *map(str, key), "0"]
    subprocess.run(argv, cwd=folder, env=env, check=True, timeout=120, capture_output=True)
    return (folder / "weights.npy").read_bytes(), judge.best_weights(folder / "checkpoints/best.pt")


def crash(seed: int, on: Stage, folder: Path) -> Verdict:
    """One trial of the crash campaign."""
    return Trial(schedule(seed), folder, on).play()


def line(seed: int, on: Stage, folder: Path) -> Verdict:
    """One trial where only the line to the box fails."""
    return Trial(line_schedule(seed), folder, on).play()


def sweep(seed: int, on: Stage, folder: Path) -> Verdict:
    """One trial of a sweep over two boxes."""
    return SweepTrial(sweep_schedule(seed), folder, on).play()


Play = Callable[[int, Stage, Path], Verdict]
Tell = Callable[[Verdict], None]


def campaign(
    seeds: Iterable[int],
    on: Stage,
    folder: Path,
    play: Play = crash,
    tell: Tell = lambda one: None,
    *,
    at_once: int = SIDE_BY_SIDE,
    record: Path | None = None,
    for_s: float = math.inf,
) -> list[Verdict]:
    """All trials, `at_once` side by side, each told in a file in `folder`, with all it left where something broke.

    `record`: a file to which each verdict is added as it comes; seeds that it has are not played again, and theirs are
    in the answer too. After `for_s` none is begun. What ran out of time is played again alone; twice out of time is
    broken.
    """
    began_s = time.monotonic()
    known = recorded(record)

    def one(seed: int, suffix: str = "") -> Verdict | None:
        if time.monotonic() - began_s > for_s:
            return None
        place = folder / f"{play.__name__}-{seed}{suffix}"
        place.mkdir(parents=True)
        verdict = play(seed, on, place)
        if suffix and verdict.cut:
            verdict.breaches.append(f"out of time twice: {verdict.cut}")
        Path(f"{place}.txt").write_text("\n".join([str(verdict), *verdict.story]) + "\n")
        if not verdict.breaches:
            shutil.rmtree(place, ignore_errors=True)
        return verdict

    def told(verdict: Verdict | None) -> bool:
        if verdict is None:
            return False
        tell(verdict)
        if verdict.cut and not verdict.breaches:
            return False
        known[verdict.seed] = verdict
        if record:
            with open(record, "a") as file:
                file.write(json.dumps({"code": on.code, **verdict.as_json()}) + "\n")
        return True

    wanted = list(seeds)
    with ThreadPoolExecutor(at_once) as pool:
        playing = {pool.submit(one, seed): seed for seed in wanted if seed not in known}
        late = [playing[done] for done in as_completed(playing) if not told(done.result())]
    for seed in sorted(late):
        told(one(seed, "-alone"))
    return [known[seed] for seed in wanted if seed in known]


def recorded(record: Path | None) -> dict[int, Verdict]:
    """The verdicts in a campaign's record, by seed; the last of each."""
    lines = judge.lines(record) if record else []
    return {said["seed"]: Verdict.of({key: said[key] for key in said if key != "code"}) for said in lines}


def total(verdicts: Sequence[Verdict], what: str) -> Counter[str]:
    """`kills` or `faults` of all."""
    return sum((getattr(verdict, what) for verdict in verdicts), Counter())


PLAYS: dict[str, Play] = {"crash": crash, "line": line, "sweep": sweep}
