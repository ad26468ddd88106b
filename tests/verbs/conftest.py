"""A user's records, a project, and a box on this machine whose transport and provider fail when they are told to."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.core.values import Site
from sojourn.store.home import Store
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from tests import ending
from tests.verbs import faulty


class World:
    """One client and one box. `later_s` is added to this machine's clock."""

    def __init__(self, home: Path, project: Path) -> None:
        self.site = Site("local", base=str(home / ".local/share/sojourn"))
        self.transport = faulty.Transport(self.site)
        self.project = project
        self.later_s = 0.0
        self.said: list[str] = []
        project.mkdir()
        self.ctx = self.client(unmetered.Backend(self.site))

    def client(self, provider: Any) -> Context:
        box = Box(self.site, self.transport, setsid.Backend(), provider, Keeper(self.transport, self.site))
        return Context(Store(), now_s=lambda: time.time() + self.later_s, say=self.said.append, boxes={"local": box})

    def later(self, seconds: float) -> None:
        """A sleep that only moves the clock."""
        self.later_s += seconds

    def job(self, run: str, **keys: Any) -> str:
        path = self.project / "sojourn.yaml"
        job = {"name": "digits", "run": run, **keys}
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
        return str(path)

    def run(self, script: str, **keys: Any) -> Launch:
        return run(self.ctx, RunRequest(self.job(script, **keys)))

    def ended(self, script: str, **keys: Any) -> Launch:
        """Run it, and wait until the box has sealed it."""
        answer = self.run(script, **keys)
        while not self.record(answer.id).is_settled:
            status(self.ctx)
            time.sleep(0.05)
        return answer

    def record(self, run: str = "digits") -> Any:
        found = self.ctx.store.index.run(run)
        assert found is not None
        return found

    def root(self, run: str = "digits") -> Path:
        return Path(self.site.base) / "runs" / run

    def journal(self) -> list[str]:
        path = Path(self.ctx.store.state_dir) / "journal.jsonl"
        return [json.loads(line)["kind"] for line in path.read_text().splitlines()] if path.exists() else []

    def end_all(self) -> None:
        """End every keeper, shim and payload of this box; none is left."""
        ending.end_all(f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}")


@pytest.fixture
def world(private_home: Path, tmp_path: Path) -> Iterator[World]:
    world = World(private_home, tmp_path / "project")
    yield world
    world.end_all()
    world.ctx.store.close()
