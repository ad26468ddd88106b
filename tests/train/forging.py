"""Trainings of slow libraries, struck by real signals; each library is imported once, by `scripts/forge.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.train.killing import SCRIPTS, environment
from tests.train.lives import is_alive

WAIT_S = 120.0


class Forge:
    """Starts scripts one after the other; leave it by `with`."""

    def __init__(self, *modules: str) -> None:
        argv, env, pipe = [str(SCRIPTS / "forge.py"), *modules], environment(HF_HUB_OFFLINE="1"), subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, *argv], env=env, stdin=pipe, stdout=pipe, universal_newlines=True
        )

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def run(
        self,
        *args: object,
        said: Path,
        strike: signal.Signals | None = None,
        after_s: float = 0.0,
        is_from_birth: bool = False,
        ranks: int = 1,
        victim: int = 0,
        hold: Path | None = None,
        **env: str,
    ) -> list[int]:
        """Exit statuses (negative: the signal it died of) of one attempt by `ranks` processes, of which `victim` is
        struck `after_s` after its training began, or after its birth; the file `hold` is made when it has been.

        What they say goes to the file `said`, of further ones to `said.1` ...
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        files = [said] + [said.with_name("%s.%d" % (said.name, rank)) for rank in range(1, ranks)]
        for file in files:
            file.write_bytes(b"")
        store = said.with_name(said.name + ".store")
        if store.exists():
            store.unlink()
        argv = [str(SCRIPTS / str(args[0])), *map(str, args[1:])]
        job = {"argv": argv, "said": list(map(str, files)), "env": dict(env, STORE="file://%s" % store)}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        pids = json.loads(self._process.stdout.readline())
        if strike is not None:
            deadline = time.monotonic() + WAIT_S
            while not is_from_birth and b"start" not in files[victim].read_bytes() and is_alive(pids[victim]):
                assert time.monotonic() < deadline, files[victim].read_text()
                time.sleep(0.005)
            time.sleep(after_s)
            try:
                os.kill(pids[victim], strike)
            except ProcessLookupError:
                pass
            if hold is not None:
                hold.touch()
        statuses = json.loads(self._process.stdout.readline())
        return [-(word & 0x7F) if word & 0x7F else word >> 8 for word in statuses]


def computed_twice(log: Path) -> list[int]:
    """How many steps each attempt after the first computed once more. The log has a line for every step computed."""
    steps = [int(line) for line in log.read_text().split()]
    return [before - now + 1 for before, now in zip(steps, steps[1:]) if now <= before]
