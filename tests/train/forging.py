"""Trainings under other libraries' loops, struck by real signals; each library is imported once, by `scripts/forge.py`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.train.killing import SCRIPTS, environment

WAIT_S = 120.0


class Forge:
    """Starts scripts one after the other; leave it by `with`."""

    def __init__(self, *modules: str, **env: str) -> None:
        argv, pipe = [sys.executable, str(SCRIPTS / "forge.py"), *modules], subprocess.PIPE
        self._process = subprocess.Popen(argv, env=environment(**env), stdin=pipe, stdout=pipe, universal_newlines=True)

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def run(self, *args: object, said: Path, strike: signal.Signals | None = None, after_s: float = 0.0) -> int:
        """The exit status of one attempt (negative: the signal it died of), struck `after_s` after its training began.

        All it says goes to the file `said`.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        said.write_bytes(b"")
        argv = [str(SCRIPTS / str(args[0])), *map(str, args[1:])]
        self._process.stdin.write(json.dumps({"argv": argv, "said": str(said)}) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if strike is not None:
            deadline = time.monotonic() + WAIT_S
            while b"start" not in said.read_bytes():
                assert time.monotonic() < deadline, said.read_text()
                time.sleep(0.005)
            time.sleep(after_s)
            try:
                os.kill(pid, strike)
            except ProcessLookupError:
                pass
        status = int(self._process.stdout.readline())
        return -(status & 0x7F) if status & 0x7F else status >> 8


def strike_until_done(
    forge: Forge, dice: random.Random, signals: list[signal.Signals], longest_s: float, folder: Path, *args: object
) -> list[str]:
    """Attempts until one ends by itself; each signal comes a random part of `longest_s` after the training began.

    What each attempt said.   Raises: AssertionError where an attempt ended otherwise than by its signal.
    """
    said = []
    for index, number in enumerate([*signals, None]):
        out = folder / ("said%d" % index)
        rc = forge.run(*args, said=out, strike=number, after_s=dice.uniform(0.0, longest_s))
        said.append(out.read_text())
        want = 0 if number is None else 75 if number == signal.SIGTERM else -int(number)
        assert rc == want, (index, number, rc, said[-1])
    return said


def computed_twice(log: Path) -> list[int]:
    """How many steps each attempt after the first computed once more. The log has a line for every step computed."""
    steps = [int(line) for line in log.read_text().split()]
    return [before - now + 1 for before, now in zip(steps, steps[1:]) if now <= before]
