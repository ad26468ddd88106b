"""What lies between a rented machine that is ready and the first line of its training, beside a bare login there.

The provider is a stand-in of `tests/clouds`, its machine a box of the laboratory (`tests/lab`) with an empty disk. Both
lie on this very machine: there is no distance. Where the laboratory cannot be had, the table says why instead.
"""

from __future__ import annotations

import importlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.protocol import LONGEST_S, Desk, Row, lab_lacks, seconds

TITLE = "From a rented machine that is ready to the first line of its training"
ROUNDS = 5
JOB = "name: {name}\nrun: date +%s.%N > /tmp/{name}; sleep 3600\nsite: cloud\nbudget: 5 USD\n"
SETTINGS = """[sites.cloud]
transport = "ssh"
provider = "runpod"
ssh_config = "{config}"
[sites.cloud.runpod]
api = "{api}"
public_key = "{key}.pub"
max_price = "5 USD/h"
"""
_why_not = ""


class Rented:
    """An account whose only machine, when there is one, is the first box. Any: the stand-ins are typed as tests are."""

    def __init__(self, folder: Path, lab: Any) -> None:
        accounts = importlib.import_module("tests.clouds.accounts")
        self.box = lab.Box(1)
        self.cloud: Any = accounts.CLOUDS["runpod"]()
        self.cloud.on_boot, self.cloud.on_end = self._boot, lambda one: self.box.fault("power-off")
        self.desk, self.project = Desk(folder), folder / "project"
        self.project.mkdir()
        self.config, self.key = folder / "ssh_config", lab.FOLDER / "boxes/key"
        self.config.write_text(
            f"Host 10.213.0.*\n  User root\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking accept-new\n"
        )
        self.count, self.ready_s = 0, 0.0
        self.told: dict[str, float] = {}

    def _boot(self, machine: Any) -> None:
        self.box.fault("power-on")
        lines = "\n".join(machine.keys).replace("'", "")
        self.box.sh(f"echo '{lines}' > /root/.ssh/authorized_keys")
        machine.host, machine.port = self.box.address, 22
        self.ready_s = time.time()  # the box has this machine's clock

    def reading(self, what: str) -> float:
        """Seconds of one of the three that a rental gives; another machine is rented where it was read already."""
        if what not in self.told:
            self._rent()
        return self.told.pop(what)

    def _rent(self) -> None:
        """From the command to the first line of the training; the run and the machine are ended afterwards."""
        name, self.count = f"bench-{self.count}", self.count + 1
        (self.project / "sojourn.yaml").write_text(JOB.format(name=name))
        began_s = time.time()
        self._say("run", "-y")
        line_s = float(self.box.sh(f"until [ -s /tmp/{name} ]; do sleep 0.1; done; cat /tmp/{name}"))
        self.told = {"wait": self.ready_s - began_s, "ready": line_s - self.ready_s}
        argv = ["ssh", "-F", str(self.config), "-o", "ControlPath=none", self.box.address, "true"]
        self.told["login"] = seconds(argv, cwd=self.project, env=self.desk.env)
        self._say("stop", name, "--confirm", name)
        self._say("down", "cloud", "--confirm", "cloud", "--abandon", name)

    def _say(self, *words: str) -> None:
        subprocess.run(
            [self.desk.sojourn, *words],
            cwd=self.project,
            env=self.desk.env,
            check=True,
            capture_output=True,
            timeout=LONGEST_S,
        )


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """An account of a stand-in, and its machine, which is off."""
    global _why_not
    _why_not = lab_lacks()
    if _why_not:
        yield {}
        return
    from tests.lab import lab

    standin: Any = importlib.import_module("tests.clouds.standin")
    with lab.locked():
        lab.boxes("down")
        lab.boxes("up", "1")
        try:
            with lab.client_namespace():
                rented = Rented(folder, lab)
                rented.box.fault("power-off")
                with standin.serving(rented.cloud) as api:
                    rented.desk.env["RUNPOD_API_KEY"] = standin.KEY
                    settings = folder / "config/sojourn/settings.toml"
                    settings.parent.mkdir(parents=True)
                    settings.write_text(SETTINGS.format(config=rented.config, api=api, key=rented.key))
                    yield {
                        "ready": lambda: rented.reading("ready"),
                        "login": lambda: rented.reading("login"),
                        "wait": lambda: rented.reading("wait"),
                    }
        finally:
            lab.boxes("down")


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and how many bare logins they are."""
    if _why_not:
        return [Row(f"not measured: {_why_not}", 0.0, "")]
    return [
        Row("`ssh box true`", medians["login"], "s"),
        Row("from `sojourn run -y` to the machine that is ready, as its provider says", medians["wait"], "s"),
        Row("from ready to the first line of the training, on an empty disk", medians["ready"], "s"),
        Row("the same, in times of `ssh box true`", medians["ready"] / medians["login"], "x"),
    ]
