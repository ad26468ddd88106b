"""A client of the real Slurm of the laboratory, for the tests that start runs on it."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import State
from sojourn.store.home import Store
from sojourn.verbs.answers import Launch, Row
from sojourn.verbs.context import Context
from sojourn.verbs.explain.why import of_run
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from tests.lab.cluster import Cluster, until


class Client:
    """One client of the cluster, whose site `hpc` has the options of the test."""

    def __init__(self, cluster: Cluster, home: Path, folder: Path) -> None:
        self.cluster, self.home, self.folder = cluster, home, folder
        self.base = folder / "shared"
        self.project = folder / "project"
        self.project.mkdir()
        self.site("local")
        self.ctx = Context(Store())

    def site(self, transport: str, init: str = "", ask_every: int = 0, **options: Any) -> None:
        """[sites.hpc]: the login node over ssh, or this machine as one. [sites.far]: the login node as a mere box."""
        lines: dict[str, Any] = {"transport": transport, "address": "login", "launcher": "sbatch"}
        lines |= {"base": str(self.base), "ask_every": ask_every}  # tests change what Slurm has behind our back
        lines["python"] = os.path.realpath(sys.executable)
        lines["init"] = init or f"export PATH={os.path.dirname(sys.executable)}:$PATH"
        path = self.home / ".config" / "sojourn" / "settings.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = ["[sites.hpc]", *(f"{key} = {json.dumps(value)}" for key, value in lines.items()), "[sites.hpc.sbatch]"]
        text += [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        far = {**lines, "transport": "ssh", "launcher": "setsid", "base": str(self.folder / "far")}
        text += ["[sites.far]", *(f"{key} = {json.dumps(value)}" for key, value in far.items())]
        path.write_text("\n".join(text) + "\n")
        self.ctx = Context(Store())

    def job(self, script: str, name: str = "r", **keys: Any) -> str:
        path = self.project / f"{name}.yaml"
        job: Mapping[str, Any] = {"name": name, "run": script, "site": "hpc", **keys}
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
        return str(path)

    def run(self, script: str, name: str = "r", **keys: Any) -> Launch:
        return run(self.ctx, RunRequest(self.job(script, name, **keys)))

    def row(self, name: str = "r") -> Row:
        (row,) = status(self.ctx, [name]).rows
        return row

    def becomes(self, state: State, name: str = "r", attempt: int = 0) -> Row:
        """Wait for the state, with the scheduler's word on it."""
        seen: list[Row] = []

        def holds() -> bool:
            seen.append(self.row(name))
            record = self.ctx.store.index.find(name)
            is_said = record.is_settled or not state.is_final
            return seen[-1].state is state and seen[-1].attempt >= attempt and is_said

        until(holds, lambda: (seen[-1], self.cluster.sh("squeue -a -t all; sacct -D -n -P"), self.logs(name)))
        return seen[-1]

    def is_ready(self, name: str = "r") -> None:
        """Wait until its script said so: from then on it hears a signal. Bash sets no trap before it reads the line."""
        log = self.root(name) / "logs" / "1.log"
        until(lambda: log.exists() and "ready\n" in log.read_text(), lambda: self.logs(name))

    def verdict(self, name: str = "r") -> str:
        """The gotcha that `why` comes to."""
        found = of_run(self.ctx, name).judged.verdict
        return found.id if found else ""

    @contextlib.contextmanager
    def without_accounting(self) -> Iterator[None]:
        """As on a cluster that keeps no accounts: all that is asked meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", self.cluster.conf_without_accounting)
            yield

    def native(self, name: str = "r") -> str:
        return str((self.ctx.store.index.find(name).handle or {})["native"])

    def root(self, name: str = "r") -> Path:
        return self.base / "runs" / name

    def logs(self, name: str = "r") -> str:
        found = sorted((self.root(name) / "logs").glob("*.*"))
        return "\n".join(f"-- {path.name}\n{path.read_text()[-1500:]}" for path in found if path.suffix != ".sh")

    def events(self, kind: str, name: str = "r") -> list[dict[str, Any]]:
        path = self.root(name) / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]
