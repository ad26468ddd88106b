"""What a user waits for: the whole `sojourn run` on this machine, from the command's start to its run's first beat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import LONGEST_S, Row, seconds
from sojourn.wire import units

TITLE = "`sojourn run` until the first beat"
_JOB = "name: {name}\nrun: sleep 600\n"


class Desk:
    """A project and private records in a fresh folder. The first run there ships the keeper."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.env = {**os.environ, "HOME": str(folder)}
        self.env.update(
            {f"XDG_{what}_HOME": str(folder / what.lower()) for what in ("CONFIG", "STATE", "DATA", "CACHE")}
        )
        self.sojourn = str(Path(sys.executable).parent / "sojourn")
        self.project = folder / "project"
        self.project.mkdir()

    def first_beat(self) -> float:
        """Seconds from the start of the command to the stamp of the first beat; the run is stopped afterwards."""
        name, self.count = f"bench-{self.count}", self.count + 1
        (self.project / "sojourn.yaml").write_text(_JOB.format(name=name))
        began_s = time.time()
        seconds([self.sojourn, "run"], cwd=self.project, env=self.env)
        lines = (self.folder / f"data/sojourn/runs/{name}/events.jsonl").read_text().splitlines()
        at = next(event["at"] for event in map(json.loads, lines) if event["kind"] == "beat")
        stop = [self.sojourn, "stop", name, "--confirm", name]
        subprocess.run(stop, cwd=self.project, env=self.env, check=True, capture_output=True, timeout=LONGEST_S)
        return units.unstamp(at) - began_s


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A bare Python start, and runs of a payload that only sleeps."""
    desk = Desk(folder)
    desk.first_beat()
    yield {"bare": lambda: seconds([sys.executable, "-c", "pass"], cwd=folder), "run": desk.first_beat}


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and how many bare starts they are. `run` itself looks for a second more."""
    return [
        Row("command's start to the first beat", medians["run"], "s"),
        Row("the same, in bare starts", medians["run"] / medians["bare"], "x"),
    ]
