"""Faults that end a run, planted for real. Each is a generator of a stage: what stands after `yield` cleans up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from sojourn.box.system import process
from tests.lab import machine_faults
from tests.verdicts.stage import STEPS, Stage, free_port, holder

MIB = 1 << 20
PYTHON = sys.executable


def memory_of_the_main_process(stage: Stage) -> Iterator[None]:
    limit = stage.dice.randint(70, 200)
    with machine_faults.group(memory__limit_in_bytes=str(limit * MIB)) as group:
        stage.within(group.within)
        eat = "kept = []\nfor n in range(100):\n    kept.append(bytearray(20 << 20)); p(n + 1, 100); print('step', n)\n"
        begin = stage.dice.choice(["exec ", ""])
        stage.launch(f"{begin}{PYTHON} train.py", {"train.py": STEPS + eat})
        stage.end()
        stage.within([])
        yield


LOADER = """import torch, time
class Eats(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, n):
        if n < %(good)d: return torch.zeros(2)
        kept = []
        while True: kept.append(bytearray(32 << 20)); time.sleep(0.01)
if __name__ == "__main__":
    for n, batch in enumerate(torch.utils.data.DataLoader(Eats(), num_workers=1)):
        print("step %%d/8 loss 0.5" %% n, flush=True)
"""


def memory_of_a_loader_worker(stage: Stage) -> Iterator[None]:
    with machine_faults.group(memory__limit_in_bytes=str(1100 * MIB)) as group:
        stage.within(group.within)
        stage.launch(f"exec {PYTHON} train.py", {"train.py": LOADER % {"good": stage.dice.randint(0, 3)}})
        stage.end()
        stage.within([])
        yield


RANK = """import os, time, torch.distributed as dist
dist.init_process_group("gloo")
print("step 1/100 loss 0.5", flush=True)
if os.environ["RANK"] == "%(rank)d":
    kept = []
    while True: kept.append(bytearray(32 << 20)); time.sleep(0.01)
time.sleep(600)
"""
TORCHRUN = f"{PYTHON} -m torch.distributed.run --nproc-per-node=2 --master-addr=127.0.0.1 --master-port=%d train.py"


def memory_of_a_torchrun_rank(stage: Stage) -> Iterator[None]:
    with machine_faults.group(memory__limit_in_bytes=str(1500 * MIB)) as group:
        stage.within(group.within)
        code = RANK % {"rank": stage.dice.randint(0, 1)}
        stage.launch(TORCHRUN % free_port(), {"train.py": code}, envs={"GLOO_SOCKET_IFNAME": "lo"})
        stage.end()
        stage.within([])
        yield


FILL = """print("step 1/9 loss 0.5", flush=True)
with open("%s", "wb") as f:
    while True: f.write(b"x" * (1 << 20)); f.flush()
"""


def _filled(stage: Stage, script: str, files: list[str]) -> Iterator[None]:
    with machine_faults.disk(stage.folder, stage.dice.randint(300, 400), inodes=5000) as point:
        stage.base = point / "box"
        stage.launch(f"exec {PYTHON} train.py", {"train.py": script % stage.dice.choice(files)})
        stage.looked()
        yield
        stage.close()


def disk_full(stage: Stage) -> Iterator[None]:
    yield from _filled(stage, FILL, ["big.bin", "model.pt.tmp"])


LOST = """import os
print("step 1/99999 loss 0.5", flush=True)
with open("%s", "wb", 0) as f:
    try:
        while f.write(b"x" * (1 << 20)): pass
    except OSError: pass
for n in range(2, 99999): print("step %%d/99999 loss 0.5" %% n, flush=True)
"""


def disk_full_of_the_log(stage: Stage) -> Iterator[None]:
    """What ends it is the line of its log that finds no room, so the log says nothing of an end."""
    yield from _filled(stage, LOST, ["big.bin", "shard-0"])


MANY = """import os
print("step 1/9 loss 0.5", flush=True)
os.mkdir("many")
n = 0
while True:
    open("many/%d" % n, "w").close(); n += 1
"""


def inodes_gone(stage: Stage) -> Iterator[None]:
    with machine_faults.disk(stage.folder, 400, inodes=stage.dice.randint(2500, 4000)) as point:
        stage.base = point / "box"
        stage.launch(f"exec {PYTHON} train.py", {"train.py": MANY})
        stage.looked()
        yield
        stage.close()


SHARE = """import os
print("step 1/9 loss 0.5", flush=True)
with open("/dev/shm/torch_%d_batch" % os.getpid(), "wb") as f:
    while True: f.write(b"x" * (1 << 20)); f.flush()
"""
SHARE_TORCH = """import torch
print("step 1/9 loss 0.5", flush=True)
kept = [torch.zeros(1 << 20).share_memory_() for _ in range(64)]
print("step 2/9 loss 0.5", flush=True)
"""


def shared_memory_full(stage: Stage) -> Iterator[None]:
    machine_faults.need_root()
    size = stage.dice.choice([4, 8, 16])
    small = f'mount -t tmpfs -o size={size}m tmpfs /dev/shm && exec "$@"'
    with _namespace(small) as within:
        stage.within(within)
        stage.launch(f"exec {PYTHON} train.py", {"train.py": stage.dice.choice([SHARE, SHARE_TORCH])})
        stage.end()
        yield


@contextlib.contextmanager
def _namespace(prepare: str) -> Iterator[list[str]]:
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", prepare, "x", "sleep", "900"]

    def is_ready(pid: int) -> bool:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().startswith(b"sleep")

    with holder(argv, is_ready) as pid:
        yield ["nsenter", "-m", "-t", str(pid), "--"]


def hung_up(stage: Stage) -> Iterator[None]:
    """A training in the foreground of a terminal that goes away, as by `ssh -tt`, or SIGHUP sent by hand."""
    if stage.dice.random() < 0.5:
        stage.launch(f"exec {PYTHON} train.py", {"train.py": STEPS + "train()\n"})
        stage.said("step 2/")
        os.kill(stage.heard("started")["pid"], signal.SIGHUP)
    else:
        terminal = (
            "import os, pty, sys, time\npid, master = pty.fork()\n"
            "if not pid: os.execv(sys.executable, [sys.executable, 'train.py'])\n"
            "while b'step 3/' not in os.read(master, 1000): pass\n"
            "print('step 3/9 loss 0.5', flush=True)\nos.close(master)\n"
            "status = os.waitpid(pid, 0)[1]\nsys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else 7)\n"
        )
        stage.launch(f"exec {PYTHON} terminal.py", {"terminal.py": terminal, "train.py": STEPS + "train()\n"})
    stage.end()
    yield


def killed_by_hand(stage: Stage) -> Iterator[None]:
    stage.launch(stage.dice.choice(["exec ", ""]) + f"{PYTHON} train.py", {"train.py": STEPS + "train()\n"})
    stage.said("step 2/")
    started = stage.heard("started")["pid"]
    victims = [started, *(process.children(started) or ())]
    os.kill(victims[-1], signal.SIGKILL)
    stage.end()
    yield


def segfault(stage: Stage) -> Iterator[None]:
    crash = stage.dice.choice(
        [
            "import ctypes; ctypes.string_at(0)",
            "import ctypes; ctypes.memset(16, 1, 8)",
            "os.kill(os.getpid(), 11)",
        ]
    )
    code = STEPS + f"train({stage.dice.randint(1, 8)}, 0.05)\n{crash}\n"
    stage.launch(stage.dice.choice(["exec ", ""]) + f"{PYTHON} train.py", {"train.py": code})
    stage.end()
    yield


def windows_line_ends(stage: Stage) -> Iterator[None]:
    """A script that came to the box by another way: what is pushed is mended. It ends badly for it: a run that ends
    with 0 has no cause of death."""
    script, line = stage.dice.choice(
        [
            ("#!/bin/bash\\r\\necho step 1\\r\\n", "chmod +x go.sh; ./go.sh"),
            ("\\r\\nset -o pipefail\\r\\necho hello\\r\\n", "bash -e go.sh"),
            ("cd .\\r\\nexport A=1\\r\\nif true; then\\r\\n  echo hello\\r\\nfi\\r\\n", "bash go.sh"),
        ]
    )
    stage.launch(f"printf '{script}' > go.sh; {line}", {"train.py": ""})
    stage.end()
    yield


LISTEN = (
    STEPS
    + """import socket
server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
print("listening", flush=True)
train()
"""
)


def port_collision(stage: Stage) -> Iterator[None]:
    port = {"MASTER_PORT": str(free_port())}
    stage.launch(f"exec {PYTHON} train.py", {"train.py": LISTEN}, name="first", envs=port)
    stage.said("listening", "first")
    if stage.dice.random() < 0.3:
        line = TORCHRUN.replace("nproc-per-node=2", "nproc-per-node=1") % int(port["MASTER_PORT"])
        stage.launch(line, {"train.py": RANK % {"rank": 9}}, envs=port)
    else:
        stage.launch(f"exec {PYTHON} train.py", {"train.py": LISTEN}, envs=port)
    stage.end()
    yield


# A node that stands in for a card, seen by what is started below alone.
HIDE = (
    'D="$0"; mkdir -p "$D"; mount -t tmpfs tmpfs "$D"; mknod "$D/nvidia0" c 1 3;'
    ' for n in null zero urandom random kmsg; do cp -a /dev/$n "$D/"; done; mkdir "$D/shm"; mount --bind "$D" /dev'
)
BUSY = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"


def leftover_holds_the_card(stage: Stage) -> Iterator[None]:
    machine_faults.need_root()
    hide = HIDE.replace("$0", str(stage.folder / "dev")) + '; exec "$@"'
    with _namespace(hide) as within:
        stage.within(within)
        stage.launch("echo step 9/9", name="first")
        stage.end("first")
        # The keeper ends what a run leaves behind; this is one that it never saw, as from a shell of the user's.
        env = dict(os.environ, SOJOURN_RUN_DIR=str(stage.root("first")), SOJOURN_ATTEMPT="1", SOJOURN_RUN_ID="first")
        argv = [*within, "sh", "-c", "exec sleep 900 < /dev/nvidia0"]
        left = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
        stage.until(lambda: process.command(left.pid).startswith("sleep"))
        stage.launch(f"echo 'step 1/9 loss 0.5'; echo '{BUSY}'; exit {stage.dice.choice([1, 2])}")
        stage.end()
        yield
        left.kill()
        left.wait(60)


FAULTS = {
    memory_of_the_main_process: ("memory-limit-kill",),
    memory_of_a_loader_worker: ("memory-limit-kill",),
    memory_of_a_torchrun_rank: ("memory-limit-kill",),
    disk_full: ("disk-full",),
    disk_full_of_the_log: ("disk-full",),
    inodes_gone: ("inodes-used-up",),
    shared_memory_full: ("shm-too-small",),
    hung_up: ("ended-by-signal", "session-closed"),
    killed_by_hand: ("killed-unknown",),
    segfault: ("segfault",),
    windows_line_ends: ("windows-line-ends",),
    port_collision: ("port-in-use",),
    leftover_holds_the_card: ("orphan-holds-vram",),
}
