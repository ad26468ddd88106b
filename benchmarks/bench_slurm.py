"""What a cluster user waits for, on the laboratory's real Slurm, beside plain `sbatch` over the same ssh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import LONGEST_S, Desk, Row, seconds

TITLE = "Slurm over ssh, beside plain `sbatch`"
ROUNDS = 5
CELLS, TINY = 200, 44


class Login(Desk):
    """The desk of a user of the cluster, whose base is on the login node's shared disk."""

    def __init__(self, folder: Path, conf: str, ssh_config: str) -> None:
        super().__init__(folder)
        self.count = 0
        self.env |= {"SLURM_CONF": conf, "SOJOURN_SSH_CONFIG": ssh_config, "PATH": self._path()}
        self.ssh_config = ssh_config
        settings = folder / "config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True)
        site = '[sites.{}]\ntransport = "ssh"\naddress = "login"\nlauncher = "sbatch"\nbase = "{}"\npython = "{}"\n'
        text = site.format("hpc", folder / "base", os.path.realpath(sys.executable))
        settings.write_text(f'{text}[sites.hpc.sbatch]\nbegin = "now+1hour"\n')

    def _path(self) -> str:
        return f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def job(self, **keys: object) -> str:
        """A job file with a new name. Returns its path."""
        self.count += 1
        job = {"name": f"b{self.count}", "site": "hpc", "run": "date > result.txt", **keys}
        path = self.folder / f"b{self.count}.yaml"
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
        return str(path)

    def plain(self) -> float:
        """Seconds of `sbatch` by hand."""
        words = "sbatch --begin=now+1hour -o /dev/null --wrap true"
        return seconds(["ssh", "-F", self.ssh_config, "login", words], env=self.env)

    def sweep(self, cells: int) -> float:
        """Seconds of submitting a sweep of so many cells."""
        return self.say("sweep", self.job(outputs=["result.txt"], sweep={"matrix": {"n": list(range(cells))}}))


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The cluster up, and the keeper there; everything waits in the queue, so that nothing but submitting is timed."""
    from tests.lab.cluster import Cluster, slurm
    from tests.lab.lab import FOLDER, locked

    with locked():
        slurm("down")
        slurm("up", "3")
        try:
            cluster = Cluster(FOLDER / "slurm")
            desk = Login(folder, cluster.conf, cluster.ssh_config)
            desk.say("run", desk.job())
            _finish(desk, cluster.sh)
            yield {
                "plain": desk.plain,
                "run": lambda: desk.say("run", desk.job()),
                "cells": lambda: desk.sweep(CELLS),
                "one": lambda: desk.say("pull", "one", "--to", str(folder / f"home{time.time_ns()}")),
                "tiny": lambda: desk.say("pull", "tiny", "--to", str(folder / f"home{time.time_ns()}")),
            }
        finally:
            slurm("down")


def _finish(desk: Login, sh: Callable[[str], str]) -> None:
    """Two sweeps whose cells have ended: `one` cell, and `tiny` many."""
    settings = desk.folder / "config/sojourn/settings.toml"
    waiting = settings.read_text()
    settings.write_text(waiting.partition("[sites.hpc.sbatch]")[0])
    for name, cells in (("one", 1), ("tiny", TINY)):
        desk.say("sweep", desk.job(name=name, outputs=["result.txt"], sweep={"matrix": {"n": list(range(cells))}}))
    while sh("squeue -h -t pending,running -o %i -S i | head -1 || true").strip() and _are_left(desk):
        time.sleep(1)
    settings.write_text(waiting)


def _are_left(desk: Login) -> bool:
    argv = [desk.sojourn, "status", "one", "tiny", "--json"]
    done = subprocess.run(argv, env=desk.env, cwd=desk.folder, capture_output=True, text=True, timeout=LONGEST_S)
    return any(run["state"] not in ("succeeded", "failed", "lost") for run in json.loads(done.stdout)["runs"])


def rows(medians: dict[str, float]) -> list[Row]:
    """Ratios to one plain `sbatch`, and to the pull of one cell."""
    return [
        Row("`sbatch` by hand over ssh", medians["plain"], "s"),
        Row("`sojourn run` over ssh, in plain sbatches", medians["run"] / medians["plain"], "x", limit=3),
        Row(f"a sweep of {CELLS} cells, in plain sbatches", medians["cells"] / medians["plain"], "x", limit=20),
        Row(f"`pull` of {TINY} tiny cells, in pulls of one", medians["tiny"] / medians["one"], "x", limit=5),
    ]
