"""What a box over ssh costs: `sojourn run` until the first beat in logins, a `status` of fifty runs, a `why` of one.

On a box of the laboratory (`tests/lab`), which lies on this very machine: both ends of every connection take its
processor time, and there is no distance. Where the laboratory cannot be had, the table says why instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import LONGEST_S, Row, lab_lacks, seconds
from sojourn.wire import units

TITLE = "a box over ssh"
ROUNDS = 7
RUNS = 50
MOST_LOGINS = 4.0
_ALIAS = "box1"
_JOB = "name: {name}\nrun: sleep 3600\n"
_LIVE = "steps"
_STEPS = f"""name: {_LIVE}
run: i=0; while sleep 1; do i=$((i+1)); echo "step $i/100000 loss 0.5"; done
"""
_why_not = ""


class Desk:
    """A user of the laboratory's first box, with private records in a fresh folder."""

    def __init__(self, folder: Path, config: Path) -> None:
        from tests.lab.lab import Box

        self.box, self.folder, self.config, self.count = Box(1), folder, config, 0
        self.env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.env.update(
            {f"XDG_{what}_HOME": str(folder / what.lower()) for what in ("CONFIG", "STATE", "DATA", "CACHE")}
        )
        # As after an installation: byte code is kept.
        self.env.update(HOME=str(folder), SOJOURN_SSH_CONFIG=str(config), PYTHONPYCACHEPREFIX=str(folder / "compiled"))
        self.env["XDG_RUNTIME_DIR"] = str(folder)
        self.sojourn = str(Path(sys.executable).parent / "sojourn")
        self.project = folder / "project"
        self.project.mkdir()

    def say(self, sharing: str, *words: str) -> float:
        """Seconds of one command."""
        return seconds([self.sojourn, *words], cwd=self.project, env={**self.env, "SOJOURN_SSH_SHARING": sharing})

    def login(self) -> float:
        """Seconds of `ssh box true`, nothing shared."""
        argv = ["ssh", "-F", str(self.config), "-o", "ControlPath=none", _ALIAS, "true"]
        return seconds(argv, cwd=self.folder, env=self.env)

    def run(self, sharing: str) -> str:
        """Start a run that lasts; its name."""
        name, self.count = f"bench-{self.count}", self.count + 1
        self.launch(sharing, _JOB.format(name=name))
        return name

    def launch(self, sharing: str, job: str) -> None:
        """Start what a job file says."""
        (self.project / "sojourn.yaml").write_text(job)
        self.say(sharing, "run", "--site", f"ssh:{_ALIAS}")

    def first_beat(self, sharing: str) -> float:
        """Seconds from the start of the command to the stamp of the first beat; the run is ended afterwards."""
        began_s = time.time()  # the box has this machine's clock
        name = self.run(sharing)
        lines = self.box.sh(f"cat /root/.local/share/sojourn/runs/{name}/events.jsonl").splitlines()
        at = next(event["at"] for event in map(json.loads, lines) if event["kind"] == "beat")
        self.stop(name)
        return units.unstamp(at) - began_s

    def stop(self, name: str) -> None:
        """End a run."""
        self.say("own", "stop", name, "--confirm", name)

    def run_logins(self) -> float:
        """How often the box's sshd let somebody in for one `run`."""
        names: list[str] = []
        count = self.logins(lambda: names.append(self.run("off")))
        self.stop(names[0])
        return count

    def status(self) -> float:
        """Seconds of one look at everything."""
        return self.say("off", "status", "--json")

    def why(self) -> float:
        """Seconds of one close look at a run that goes on; it ends with 0, since nothing is wrong."""
        return self.say("off", "why", _LIVE, "--json")

    def logins(self, act: Callable[[], object]) -> float:
        """How often the box's sshd let somebody in meanwhile."""
        before = self._accepted()
        act()
        return float(self._accepted() - before)

    def _accepted(self) -> int:
        return int(self.box.sh("grep -c 'Accepted publickey' /var/log/sshd.log || true"))


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A box that has had a run before, and fifty runs on it."""
    global _why_not
    _why_not = lab_lacks()
    if _why_not:
        yield {}
        return
    from tests.lab import lab

    with lab.locked():
        lab.boxes("down")
        lab.boxes("up", "1")
        try:
            with lab.client_namespace():
                yield _measures(Desk(folder, lab.FOLDER / "boxes/ssh_config"))
        finally:
            _hang_up(folder)
            lab.boxes("down")


def _measures(desk: Desk) -> dict[str, Callable[[], float]]:
    desk.first_beat("off")
    desk.launch("own", _STEPS)
    for _ in range(RUNS - 1):
        desk.run("own")
    return {
        "login": desk.login,
        "run": lambda: desk.first_beat("off"),
        "shared": lambda: desk.first_beat("own"),
        "run logins": desk.run_logins,
        "status": desk.status,
        "status logins": lambda: desk.logins(desk.status),
        "why": desk.why,
        "why logins": lambda: desk.logins(desk.why),
    }


def _hang_up(folder: Path) -> None:
    """End the shared connections, which would outlive us by minutes."""
    for path in (folder / "sojourn").glob("*"):
        subprocess.run(
            ["ssh", "-o", f"ControlPath={path}", "-O", "exit", _ALIAS], capture_output=True, timeout=LONGEST_S
        )


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds and logins. A login is one `ssh box true` without connection sharing."""
    if not medians:
        return [Row(f"not measured: {_why_not}", 0.0, "s")]
    ssh = medians["login"]
    return [
        Row("`ssh box true`", ssh, "s"),
        Row("`run` on a warm box to the first beat, nothing shared", medians["run"], "s"),
        Row("the same, in `ssh box true`", medians["run"] / ssh, "x", limit=MOST_LOGINS),
        Row("the same, logins of the whole command", medians["run logins"], "logins", limit=3.0),
        Row("`run` to the first beat, connection shared", medians["shared"], "s"),
        Row(f"`status` of {RUNS} runs, nothing shared", medians["status"], "s"),
        Row("the same, logins", medians["status logins"], "logins", limit=1.0),
        Row("`why` of a live run, nothing shared", medians["why"], "s", limit=2.0),
        Row("the same, in `ssh box true`", medians["why"] / ssh, "x"),
        Row("the same, logins", medians["why logins"], "logins", limit=1.0),
    ]
