"""What the keeper costs on the box: until a run's first beat, and while it watches a payload that only sleeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.protocol import Row
from sojourn import backends
from sojourn.backends.keeper.client import Answer, Keeper
from sojourn.core.values import Place, Site

TITLE = "The keeper on the box"
ROUNDS = 5
WINDOW_S = 15.0  # three beats of the default length
_MIB = 1024.0  # smaps speaks KiB


class Box:
    """A local site in a fresh folder; every run of it is stopped in the end."""

    def __init__(self, folder: Path) -> None:
        site = Site("local", base=str(folder / "base"))
        self.place = Place(site)
        self.transport = backends.get("transport", "local")(site)
        self.launcher = backends.get("launcher", "setsid")(site)
        self.keeper = Keeper(self.transport, site)
        self.runs: list[str] = []
        self.handles: list[Any] = []
        self.ask("hello")

    def ask(self, op: str, **fields: Any) -> Answer:
        """One call that must be answered."""
        answer = self.keeper.ask(op, **fields)
        assert isinstance(answer, Answer), answer
        return answer

    def begin(self, seconds: int) -> tuple[Path, float]:
        """Start a run that sleeps: its root, and the seconds from the launcher's start to its first beat on disk."""
        run = f"bench-{len(self.runs)}"
        spec = {"run": run, "argv": ["sleep", str(seconds)], "identity": run, "keeper": self.keeper.file, "beat_s": 5.0}
        placed = self.ask("place", run=spec, want={"attempt": 1, "by": "run", "token": run}).value
        events = Path(placed["root"], "events.jsonl")
        self.runs.append(run)
        began = time.perf_counter()
        self.handles.append(self.launcher.start(self.place, placed["argv"], placed["root"]))
        while not (events.exists() and b'"kind":"beat"' in events.read_bytes()):
            assert time.perf_counter() - began < 60, "no beat"
            time.sleep(0.001)
        return events.parent, time.perf_counter() - began

    def first_beat(self) -> float:
        """One reading of how long a start takes."""
        _, took = self.begin(600)
        self.end()
        return took

    def end(self) -> None:
        """Stop what was started last, and see it gone."""
        self.ask("stop", run=self.runs[-1], grace_s=1.0)
        handle = self.handles.pop()
        while self.launcher.pulse(self.place, handle).value != "gone":
            time.sleep(0.01)


class Rest:
    """The processes beside a payload that only sleeps."""

    def __init__(self, root: Path) -> None:
        import json

        self.keeper = int(json.loads((root / "keeper.json").read_text())["pid"])
        self.shim = int(json.loads((root / "exits/1.begun.json").read_text())["shim"]["pid"])

    def cpu_pct(self) -> float:
        """Share of one core over the next WINDOW_S."""
        before, began = cpu_s(self.keeper), time.monotonic()
        time.sleep(WINDOW_S)
        return 100 * (cpu_s(self.keeper) - before) / (time.monotonic() - began)


def anonymous_mib(pid: int) -> float:
    """Anonymous memory, from smaps_rollup."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / _MIB
    raise ValueError("smaps_rollup tells no Anonymous")


def cpu_s(pid: int) -> float:
    """CPU time: by the scheduler's nanoseconds, else by the ticks of /proc/PID/stat (10 ms each)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """One run that sleeps, for the readings at rest; others are started and stopped for the readings of a start."""
    box = Box(folder)
    root, _ = box.begin(3600)
    rest, run, handle = Rest(root), box.runs[-1], box.handles.pop()
    try:
        yield {
            "first beat": box.first_beat,
            "since": lambda: _timed(lambda: box.ask("since", runs={run: 0})),
            "cpu": rest.cpu_pct,
            "keeper": lambda: anonymous_mib(rest.keeper),
            "shim": lambda: anonymous_mib(rest.shim),
        }
    finally:
        box.runs.append(run)
        box.handles.append(handle)
        box.end()


def rows(medians: dict[str, float]) -> list[Row]:
    """What a user of the box would ask."""
    return [
        Row("from the launcher's start to the first beat", medians["first beat"], "s", goal=0.5),
        Row("one `since` call, local, client's Python running", medians["since"], "s", goal=0.2),
        Row("keeper at rest, anonymous memory", medians["keeper"], "MiB", limit=10),
        Row("keeper at rest, share of one core", medians["cpu"], "%", limit=0.2),
        Row("shim at rest, anonymous memory", medians["shim"], "MiB", goal=5),
    ]


def _timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began
