"""Faults that a run gets over, planted for real: it goes on, or ends well at its plan, and nothing is wrong with it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

from tests.lab import machine_faults
from tests.verdicts.stage import STEPS, Stage

PYTHON = sys.executable
MIB = 1 << 20


def _goes_on(stage: Stage, before: str) -> Iterator[None]:
    """The steps `before` happen, then a training that lasts, or that comes to its end."""
    is_done = stage.dice.random() < 0.5
    rest = "train(15, 0.1)\n" if is_done else "train()\n"
    stage.launch(f"exec {PYTHON} train.py", {"train.py": STEPS + before + rest})
    if is_done:
        stage.end()
    else:
        stage.said("step 12/")
        stage.steps(3)
    yield


CAUGHT = """class OutOfMemoryError(RuntimeError): pass
import traceback
for size in (64, 32):
    try:
        if size == 64:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 4 GiB")
    except RuntimeError:
        traceback.print_exc()
        print("trying a smaller batch", flush=True)
"""


def out_of_memory_caught(stage: Stage) -> Iterator[None]:
    """A search for the batch size, which prints what it catches."""
    yield from _goes_on(stage, CAUGHT)


HELPER = """import subprocess
eat = "kept = []\\nwhile True: kept.append(bytearray(16 << 20))"
for n in range(COUNT):
    print("helper ended with", subprocess.run([sys.executable, "-c", eat]).returncode, flush=True)
"""


def helper_killed(stage: Stage) -> Iterator[None]:
    """The kernel kills a helper of the run in its own control group; the run itself goes on."""
    with machine_faults.group(memory__limit_in_bytes=str(stage.dice.randint(200, 300) * MIB)) as group:
        stage.within(group.within)
        yield from _goes_on(stage, HELPER.replace("COUNT", str(stage.dice.randint(1, 2))))
        stage.within([])
        stage.close()


WARNS = """warns = (
    "box:12:34 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.7<40001> failed : refused",
    "[rank0]: DistBackendError: NCCL error, remote process exited or there was a network error",
    "NCCL INFO retrying in 1 s",
)
for n in range(COUNT):
    print("\\n".join(warns), flush=True)
"""


def nccl_warning(stage: Stage) -> Iterator[None]:
    """A connection that came at the second try."""
    yield from _goes_on(stage, WARNS.replace("COUNT", str(stage.dice.randint(1, 4))))


WRITES = """import traceback
while True:
    try:
        with open("POINT/last.pt", "wb") as f: f.write(b"x" * 4096)
        break
    except OSError:
        traceback.print_exc(); print("cannot save", flush=True); time.sleep(0.3)
"""


def mount_healed(stage: Stage) -> Iterator[None]:
    """A disk of the run's data is read-only for a while, and mends."""
    with machine_faults.disk(stage.folder, 100) as point:
        machine_faults.run("mount", "-o", "remount,ro", str(point))
        mend = f"import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1; mount -o remount,rw {point}'])\n"
        yield from _goes_on(stage, mend + WRITES.replace("POINT", str(point)))
        stage.close()


def signal_survived(stage: Stage) -> Iterator[None]:
    """Somebody sends a signal that the program handles, and trains on."""
    stage.launch(
        f"exec {PYTHON} train.py",
        {
            "train.py": STEPS
            + "import signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('SIGUSR1 received, saving', flush=True))\n"
            "train()\n"
        },
    )
    stage.said("step 2/")
    os.kill(stage.heard("started")["pid"], signal.SIGUSR1)
    stage.said("step 12/")
    stage.steps(3)
    yield


FAULTS = {
    out_of_memory_caught: ("healthy",),
    helper_killed: ("healthy",),
    nccl_warning: ("healthy",),
    mount_healed: ("healthy",),
    signal_survived: ("healthy",),
}
