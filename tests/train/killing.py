"""Real trainings that are really killed: started, SIGKILLed at a random moment or at the n-th thing they do to the
disk, started again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
SOURCE = Path(__file__).parents[2] / "src"


def environment(**more: str) -> dict[str, str]:
    """What a training needs and nothing that would tie its result to this machine's threads."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SOJOURN_RUN")}
    env.update(PYTHONPATH=str(SOURCE), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", **more)
    return env


def start(script: str, *args: object, start_new_session: bool = False, **env: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, str(SCRIPTS / script), *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, env=environment(**env), stdout=pipe, stderr=subprocess.STDOUT, start_new_session=start_new_session
    )


def run(script: str, *args: object, **env: str) -> tuple[int, str]:
    """(exit status, all it said) of a training that is left alone."""
    process = start(script, *args, **env)
    said = process.communicate(timeout=120)[0].decode()
    return process.returncode, said


def run_killed(dice: random.Random, kills: int, longest_s: float, script: str, *args: object) -> tuple[int, list[str]]:
    """Run to the end through `kills` signals, each after a random part of `longest_s`: mostly SIGKILL, some SIGTERM.

    (signals that hit, all that was said)
    """
    hit, said = 0, []
    while True:
        process = start(script, *args)
        if hit < kills:
            try:
                process.wait(timeout=dice.uniform(0.0, longest_s))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM if dice.random() < 0.25 else signal.SIGKILL)
                hit += 1
        said.append(process.communicate(timeout=120)[0].decode())
        if process.returncode == 0:
            return hit, said
        # -15 where SIGTERM came before the Checkpointer was made or when the training was over
        assert process.returncode in (-signal.SIGKILL, -signal.SIGTERM, 75), said[-1]


def wait_for(path: Path, glob: str, timeout_s: float = 240.0) -> Path:
    """The first file in `path` that fits `glob`, as soon as it is there."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = next(iter(sorted(path.glob(glob))), None) if path.exists() else None
        if found is not None:
            return found
        time.sleep(0.005)
    raise AssertionError("%s never came" % glob)
