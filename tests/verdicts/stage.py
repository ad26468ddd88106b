"""A user's records, a project and a box on this machine, for faults that are planted on runs launched by `run`."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.backends.transport import local
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.store.home import Store
from sojourn.verbs.context import Box, Context
from sojourn.verbs.explain import why
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from tests import ending
from tests.box.rig import until

PATIENCE_S = 200.0
# What a training does that says where it stands; `p(step, total)` tells sojourn as well.
STEPS = """import json, os, sys, time
def p(step, total):
    path = os.environ["SOJOURN_PROGRESS"]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(path + ".new", "w") as f:
        f.write(json.dumps({"step": step, "total": total, "at": at}))
    os.replace(path + ".new", path)
def train(steps=100000, pause_s=0.2, flush=True):
    for step in range(1, steps + 1):
        print("step %d/%d loss %.4f" % (step, steps, 1.0 / step), flush=flush)
        p(step, steps)
        time.sleep(pause_s)
"""


class Within(local.Backend):
    """This machine, where a call is started by what stands in `before`: in a control group, in other namespaces."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.before: list[str] = []

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        return super().call([*self.before, *argv], **how)

    def stream(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        return super().stream([*self.before, *argv], **how)


class Stage:
    """One client and one box; `base` is where the box keeps its runs, `dice` what a trial's seed decides."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.base = folder / "box"
        self._made: list[Context] = []
        self.point_home(folder)

    def point_home(self, folder: Path) -> None:
        """Everything this process and its children write goes below `folder`."""
        for name, part in (
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "home/.config"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_DATA_HOME", "home/.local/share"),
            ("XDG_CACHE_HOME", "home/.cache"),
        ):
            os.environ[name] = str(folder / part)
            (folder / part).mkdir(parents=True, exist_ok=True)
        os.environ.pop("PYTHONUNBUFFERED", None)
        os.environ["OMP_NUM_THREADS"] = "1"

    @property
    def ctx(self) -> Context:
        """The client's, made when it is first asked for: by then `base` is known."""
        if not self._made:
            self.site = Site("local", base=str(self.base))
            self.transport = Within(self.site)
            box = Box(
                self.site,
                self.transport,
                setsid.Backend(),
                unmetered.Backend(self.site),
                Keeper(self.transport, self.site),
            )
            self._made.append(Context(Store(), boxes={"local": box}))
        return self._made[0]

    def from_settings(self) -> None:
        """A client that finds its boxes in the user's settings."""
        self._made.append(Context(Store()))

    def within(self, before: Sequence[str]) -> None:
        """Start what is called on the box from now on by these words."""
        _ = self.ctx
        self.transport.before = list(before)

    def launch(self, script: str, files: dict[str, str | bytes] | None = None, name: str = "job", **keys: Any) -> None:
        """`sojourn run` of a project that holds `files`; a warning of the preflight does not stop it."""
        project = self.folder / f"project-{name}"
        project.mkdir(exist_ok=True)  # the identical command again, where a link broke
        for path, content in (files or {}).items():
            (project / path).write_bytes(content.encode() if isinstance(content, str) else content)
        job = {"name": name, "run": script, "stall_after": "30m", **keys}
        (project / "sojourn.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
        answer = run(self.ctx, RunRequest(str(project / "sojourn.yaml")))
        assert self.ctx.store.index.run(name) is not None, [one.title for one in answer.findings]

    def end(self, name: str = "job") -> None:
        """Wait until the box has sealed it."""

        def is_settled() -> bool:
            status(self.ctx, [name])
            found = self.ctx.store.index.run(name)
            return found is not None and found.is_settled

        self.until(is_settled, pause_s=0.3)

    def looked(self, name: str = "job") -> None:
        """Wait for the keeper's look at the end, where there may be no room left to write the end itself down."""
        self.until((self.root(name) / "evidence/1.json").exists, pause_s=0.3)

    def root(self, name: str = "job") -> Path:
        return self.base / "runs" / name

    def events(self, kind: str, name: str = "job") -> list[dict[str, Any]]:
        path = self.root(name) / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [row for line in lines if line.endswith("}") and (row := json.loads(line)).get("kind") == kind]

    def log(self, name: str = "job") -> str:
        path = self.root(name) / "logs/1.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def heard(self, kind: str, count: int = 1, name: str = "job") -> dict[str, Any]:
        """Wait for the `count`-th event of a kind; that event."""
        found: dict[str, Any] = self.until(lambda: self.events(kind, name)[count - 1 : count])[0]
        return found

    def said(self, words: str, name: str = "job") -> None:
        """Wait until the log has these words."""
        self.until(lambda: words in self.log(name))

    def steps(self, count: int, name: str = "job") -> None:
        """Wait until beats have told of so many different steps."""
        self.until(lambda: len({str(beat.get("progress")) for beat in self.events("beat", name)}) > count)

    def until(self, what: Callable[[], Any], pause_s: float = 0.05) -> Any:
        """Wait for something to come true, as long as a crowded machine may need."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (value := what()):
            assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s in vain; log: {self.log()[-300:]!r}"
            time.sleep(pause_s)
        return value

    def why(self, name: str = "job") -> tuple[why.Why, dict[str, Any]]:
        """(what `why RUN` answers, the evidence it judged). A box too busy to answer is asked again."""
        kept = self.folder / "evidence.json"

        def asked() -> why.Why | None:
            with contextlib.suppress(why.NoEvidence):
                return why.of_run(self.ctx, name, save=str(kept))
            return None

        return self.until(asked, pause_s=1.0), json.loads(kept.read_text())

    def close(self) -> None:
        """End every keeper, shim and payload of this box, and all that they started."""
        ending.end_all(f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}")
        for ctx in self._made:
            ctx.store.close()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def holder(argv: Sequence[str], is_ready: Callable[[int], bool]) -> Iterator[int]:
    """A process that holds namespaces open; its pid. Ended, with what it began, at the end."""
    child = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL)
    try:
        until(lambda: is_ready(child.pid), 60)
        yield child.pid
    finally:
        child.kill()
        child.wait(60)
