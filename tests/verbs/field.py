"""Several boxes on one machine, each a base folder of its own behind a line that can be cut; and a job with a sweep."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.core.values import Site
from sojourn.store.home import Store
from sojourn.verbs.context import Box, Context
from sojourn.verbs.observe.status import status
from sojourn.verbs.sweep.reconcile import Reconciled, reconcile
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import Swept, sweep
from tests.verbs import faulty
from tests.verbs.conftest import World

# Writes what it is owed, once its gate is open; a cell that is to fail does so the first time.
SCRIPT = """
echo "$SOJOURN_RUN_ID $SOJOURN_ATTEMPT" >> {folder}/begun
if [ -e {folder}/save-$SOJOURN_RUN_ID ] && [ $SOJOURN_ATTEMPT = 1 ]; then
  kept=ckpt-t000001-s00000090.pt
  echo saved > "$SOJOURN_CHECKPOINT_DIR/$kept"
  printf '{{"step": 90, "checkpoint": {{"path": "%s", "step": 90, "bytes": 6}}}}' $kept > "$SOJOURN_PROGRESS"
fi
until [ -e {folder}/gate ] || [ -e {folder}/gate-$SOJOURN_RUN_ID ]; do sleep 0.05; done
if [ -e {folder}/fail-$SOJOURN_RUN_ID ] && [ $SOJOURN_ATTEMPT = 1 ]; then exit 3; fi
printf '{{"cell": "%s"}}' "$SOJOURN_RUN_ID" > result.json
"""


class Field:
    """Boxes a, b, ... of one user. `open()` lets every cell end; until then those that began wait."""

    def __init__(self, world: World, folder: Path, names: str) -> None:
        self.world, self.folder = world, folder
        self.lines: dict[str, faulty.Transport] = {}
        self.bases = {name: folder / name for name in names.split()}
        config = Path(world.ctx.store.state_dir).parents[2] / ".config/sojourn"
        config.mkdir(parents=True)
        told = [f'[sites.{name}]\ntransport = "local"\nbase = "{base}"\n' for name, base in self.bases.items()]
        (config / "settings.toml").write_text("".join(told))
        self.ctx = self.client()

    def client(self) -> Context:
        """Another start of the command line: what was in memory is gone."""
        boxes = {}
        for name, base in self.bases.items():
            site = Site(name, base=str(base))
            line = self.lines.setdefault(name, faulty.Transport(site))
            boxes[name] = Box(site, line, setsid.Backend(), unmetered.Backend(site), Keeper(line, site))
        store = Store(self.world.ctx.store.state_dir)
        return Context(store, say=self.world.said.append, boxes=boxes)

    def job(self, matrix: dict[str, list[Any]], **keys: Any) -> str:
        job = {"outputs": ["result.json"], "candidates": list(self.bases), "sweep": {"matrix": matrix}, **keys}
        return self.world.job(SCRIPT.format(folder=self.folder), **{"name": "ab", **job})

    def sweep(
        self, matrix: dict[str, list[Any]], keys: dict[str, Any] | None = None, *, dry_run: bool = False, **how: Any
    ) -> Swept:
        return sweep(self.ctx, SweepRequest(self.job(matrix, **(keys or {})), **how), dry_run=dry_run)

    def reconcile(self, **how: Any) -> Reconciled:
        return reconcile(self.ctx, "ab", **how)

    def open(self, cell: str = "") -> None:
        (self.folder / (f"gate-{cell}" if cell else "gate")).touch()

    def begun(self) -> list[str]:
        path = self.folder / "begun"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def states(self) -> dict[str, str]:
        return {row.id: row.state.value for row in status(self.ctx, ["ab"]).rows}

    def until(self, holds: Callable[[dict[str, str]], Any]) -> dict[str, str]:
        """Look until `holds` of the cells' states."""
        deadline = time.monotonic() + 240
        while True:
            states = self.states()
            if holds(states):
                return states
            assert time.monotonic() < deadline, states
            time.sleep(0.25)

    def over(self) -> dict[str, str]:
        """Wait until every cell has ended and is sealed."""
        self.until(lambda states: not set(states.values()) & {"queued", "starting", "running", "planned"})
        deadline = time.monotonic() + 240
        while not all(r.is_settled or r.heard.attempt == 0 for r in self.ctx.store.index.cells("ab")):
            assert time.monotonic() < deadline
            time.sleep(0.25)
            self.states()
        return self.states()

    def sites(self) -> dict[str, str]:
        return {record.id: record.site_name for record in self.ctx.store.index.cells("ab")}

    def wipe(self, name: str) -> None:
        """The box is gone for good, with all that ran there."""
        self.lines[name].is_cut = True
        while ours := [pid for pid in processes() if f"{self.bases[name]}/".encode() in command(pid)]:
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        shutil.rmtree(self.bases[name])

    def events(self, site: str, cell: str, kind: str) -> list[dict[str, Any]]:
        path = self.bases[site] / "runs" / cell / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def command(pid: int) -> bytes:
    """The arguments and the environment of a process, as far as it is ours to read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


Make = Callable[[str], Field]


@contextlib.contextmanager
def fields(world: World, folder: Path) -> Iterator[Make]:
    """Makes fields by the names of their boxes. At the end their boxes go on and their records are closed."""
    made = []

    def make(names: str) -> Field:
        made.append(Field(world, folder, names))
        return made[-1]

    yield make
    for one in made:
        one.open()
        one.ctx.store.close()
