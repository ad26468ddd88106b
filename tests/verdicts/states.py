"""Faults under which a run lives on, or of which nobody could write anything down, planted for real."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

from sojourn.box.system import process
from tests.lab import machine_faults
from tests.verdicts.ends import RANK, TORCHRUN
from tests.verdicts.stage import STEPS, Stage, free_port, holder

PYTHON = sys.executable
TRAIN = STEPS + "train()\n"


def healthy(stage: Stage) -> Iterator[None]:
    """Nothing is wrong: a training that moves, beside a log with words that scare."""
    scare = 'print("WARNING: CUDA error rate 0, killed=0, Error: none, retry after Connection reset by peer")\n'
    stage.launch(f"exec {PYTHON} train.py", {"train.py": STEPS + scare + "train()\n"})
    stage.steps(2)
    yield


def read_only(stage: Stage) -> Iterator[None]:
    with machine_faults.disk(stage.folder, 300, inodes=5000) as point:
        stage.base = point / "box"
        code = STEPS + "while True:\n    print('step 1', flush=True); time.sleep(0.2)\n"
        if stage.dice.random() < 0.5:
            code = (
                STEPS + "n = 0\nwhile True:\n    n += 1; print('step %d' % n, flush=True); p(n, 9); time.sleep(0.2)\n"
            )
        stage.launch(f"exec {PYTHON} train.py", {"train.py": code})
        stage.heard("beat")
        machine_faults.abort(point)
        stage.until(lambda: not machine_faults.takes_a_file(point))
        yield
        stage.close()


def container_restart(stage: Stage) -> Iterator[None]:
    """Everything ended with PID 1, and nobody wrote down how; the machine's boot id stays what it was."""
    machine_faults.need_root()
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sleep", "900"]

    def is_ready(pid: int) -> bool:
        inner = process.children(pid)
        return bool(inner) and process.command(inner[0]).startswith("sleep")

    with holder(argv, is_ready) as pid:
        stage.within(["nsenter", "-p", "-m", "-t", str((process.children(pid) or [0])[0]), "--"])
        stage.launch(f"exec {PYTHON} train.py", {"train.py": TRAIN})
        stage.heard("beat")
    with holder(argv, is_ready) as pid:
        stage.within(["nsenter", "-p", "-m", "-t", str((process.children(pid) or [0])[0]), "--"])
        yield


def log_held_back(stage: Stage) -> Iterator[None]:
    """A log that the C library's way of buffering keeps empty while the training goes on."""
    line = f"exec env -u PYTHONUNBUFFERED {PYTHON} train.py"
    stage.launch(line, {"train.py": STEPS + "train(flush=False)\n"})
    stage.steps(3)
    if stage.dice.random() < 0.5:  # a quarter of an hour of silence, without waiting for it
        path = stage.root() / "logs/1.log"
        os.utime(path, (time.time() - 900, time.time() - 900))
    yield


def keeper_killed(stage: Stage) -> Iterator[None]:
    stage.launch(f"exec {PYTHON} train.py", {"train.py": TRAIN})
    stage.steps(3)
    keeper = stage.heard("attempt")["keeper"]["pid"]
    os.kill(keeper, signal.SIGKILL)
    stage.until(lambda: getattr(process.read_stat(keeper), "state", "Z") in "ZX")
    yield


# Work that holds no lock of Python's, so that every thread takes all the CPU it is given.
STORM = (
    STEPS
    + """import hashlib, threading
def spin():
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1 << 30)
for _ in range(COUNT): threading.Thread(target=spin, daemon=True).start()
print("storm", flush=True)
train(pause_s=0.5)
"""
)


def thread_storm(stage: Stage) -> Iterator[None]:
    with machine_faults.group(cpu__cfs_quota_us="40000", cpu__shares="32768") as group:
        stage.within(group.within)
        stage.launch(f"exec {PYTHON} train.py", {"train.py": STORM.replace("COUNT", str(stage.dice.randint(24, 48)))})
        stage.within([])
        stage.said("storm")
        stage.heard("beat", 2)
        throttled = group.folders["cpu"] / "cpu.stat"
        stage.until(lambda: _count(throttled.read_text(), "nr_throttled") > 20)
        yield
        stage.close()


def _count(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


HUNG = (
    RANK.split("print")[0]
    + STEPS
    + """import datetime, torch
for step in range(1, 1000):
    if os.environ["RANK"] == "1" and step == 6: time.sleep(3600)
    dist.all_reduce(torch.ones(4))
    if os.environ["RANK"] == "0":
        print("step %d/1000 loss 0.5" % step, flush=True); p(step, 1000)
    time.sleep(PAUSE)
"""
)


def collective_hangs(stage: Stage) -> Iterator[None]:
    """One rank stays away from a collective of gloo; the others wait, and nothing is said."""
    code = HUNG.replace("PAUSE", stage.dice.choice(["0.2", "0.5"]))
    envs = {"GLOO_SOCKET_IFNAME": "lo"}
    stage.launch(TORCHRUN % free_port(), {"train.py": code}, envs=envs, stall_after="20s")
    stage.said("step 5/")
    stage.heard("stalled")
    yield


def collective_times_out(stage: Stage) -> Iterator[None]:
    """The same, where the group's own patience is short; that of their meeting is not, as one may start much later."""
    group = f"group = dist.new_group(timeout=datetime.timedelta(seconds={stage.dice.randint(4, 8)}))\n"
    code = HUNG.replace("PAUSE", "0.2").replace("import datetime, torch\n", "import datetime, torch\n" + group)
    code = code.replace("torch.ones(4)", "torch.ones(4), group=group")
    stage.launch(TORCHRUN % free_port(), {"train.py": code}, envs={"GLOO_SOCKET_IFNAME": "lo"})
    stage.end()
    yield


def script_rewritten(stage: Stage) -> Iterator[None]:
    stage.launch("bash go.sh", {"go.sh": "echo step 1/100\nsleep 600\necho step 2/100\n"})
    stage.said("step 1/")
    path = stage.root() / "attempts/1/go.sh"
    stage.until(lambda: process.children((process.children(stage.heard("started")["pid"]) or [0])[0]))
    new = stage.dice.choice(["echo step 1/100\nsleep 601\necho xx\n", "echo step 1/100\nsleep 600\nrm -f x\n"])
    with open(path, "r+b") as f:  # as an editor or `scp` does that writes in place
        f.write(new.encode())
        f.truncate()
    yield


FAULTS = {
    healthy: ("healthy",),
    read_only: ("file-system-failing",),
    container_restart: ("box-restarted",),
    log_held_back: ("healthy", "log-held-back"),
    keeper_killed: ("healthy",),
    thread_storm: ("threads-sized-to-the-machine",),
    collective_hangs: ("collective-hangs", "stalled"),
    collective_times_out: ("collective-timeout",),
    script_rewritten: ("script-rewritten-live",),
}
