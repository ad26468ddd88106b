"""Trainings of slow libraries, struck by real signals; each library is imported once, by `scripts/forge.py`."""

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

    def run(
        self,
        *args: object,
        said: Path,
        strike: signal.Signals | None = None,
        after_s: float = 0.0,
        ranks: int = 1,
        victim: int = 0,
        **env: str,
    ) -> list[int]:
        """Exit statuses (negative: the signal it died of) of one attempt by `ranks` processes, of which `victim` is
        struck `after_s` after its training began.

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
            while b"start" not in files[victim].read_bytes():
                assert time.monotonic() < deadline, files[victim].read_text()
                time.sleep(0.005)
            time.sleep(after_s)
            try:
                os.kill(pids[victim], strike)
            except ProcessLookupError:
                pass
        statuses = json.loads(self._process.stdout.readline())
        return [-(word & 0x7F) if word & 0x7F else word >> 8 for word in statuses]


def strike_until_done(
    forge: Forge,
    dice: random.Random,
    signals: list[signal.Signals],
    longest_s: float,
    folder: Path,
    *args: object,
    ranks: int = 1,
) -> list[str]:
    """Attempts until one ends by itself; each signal comes a random part of `longest_s` after the training began.

    Of several processes a random one is struck. What each attempt said.
    Raises: AssertionError where an attempt ended otherwise than by its signal.
    """
    said = []
    for index, number in enumerate([*signals, None]):
        out = folder / ("said%d" % index)
        victim, after_s = dice.randrange(ranks), dice.uniform(0.0, longest_s)
        rcs = forge.run(*args, said=out, strike=number, after_s=after_s, ranks=ranks, victim=victim)
        said.append(
            "".join(path.read_text() for path in sorted(folder.glob(out.name + "*")) if path.suffix != ".store")
        )
        if number == signal.SIGKILL:  # what the others do then is not theirs to choose
            assert rcs[victim] == -signal.SIGKILL and 0 not in rcs, (index, victim, rcs, said[-1])
        else:
            assert rcs == [0 if number is None else 75] * ranks, (index, number, victim, rcs, said[-1])
    return said


def computed_twice(log: Path) -> list[int]:
    """How many steps each attempt after the first computed once more. The log has a line for every step computed."""
    steps = [int(line) for line in log.read_text().split()]
    return [before - now + 1 for before, now in zip(steps, steps[1:]) if now <= before]
