"""The training of the crash campaign: EPOCHS STEPS SIZE PAUSE_S. A second or two of real, deterministic numpy work.

It keeps a ledger of its own outside of the run (LEDGER): who ran when, what it went on from, what its Checkpointer said
is committed. The lock beside the ledger is held for as long as it lives, so that two at once are seen for certain.
"""

import fcntl
import json
import os
import sys
import time

import numpy as np

from sojourn.train import Batches, Checkpointer

epochs, steps, size, pause_s = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
alone = os.open(os.environ["LEDGER"] + ".alone", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
folder = os.environ.get("SOJOURN_CHECKPOINT_DIR", "checkpoints")


def tell(kind, **facts):
    attempt = int(os.environ.get("SOJOURN_ATTEMPT", 0))
    line = {"kind": kind, "pid": os.getpid(), "attempt": attempt, "at": time.clock_gettime(time.CLOCK_BOOTTIME)}
    os.write(ledger, (json.dumps(dict(line, **facts)) + "\n").encode())


def committed():
    """(token, step) of what the Checkpointer's own record names as the latest."""
    try:
        with open(os.path.join(folder, "latest.json")) as f:
            latest = json.load(f)
    except FileNotFoundError:
        return [0, 0]
    return [latest["token"], latest["step"]]


try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    tell("begin", alone=True, committed=committed())
except BlockingIOError:
    tell("begin", alone=False, committed=committed())

rng = np.random.default_rng(7)
x = rng.normal(size=(steps * 4, 16)).astype(np.float32)
weights = np.zeros((size, 16), np.float32)
velocity = np.zeros_like(weights)
ckpt = Checkpointer(
    loader=Batches(x, size=4, rng=rng), best=("loss", "min"), every_steps=3, w=weights, v=velocity, rng=rng
)
known = committed()
tell("goes-on", step=ckpt.step_count, epoch=ckpt.epoch, resumed=ckpt.resumed)
for epoch in ckpt.epochs(epochs):
    for (batch,) in ckpt.batches():
        noise = rng.normal(scale=0.01, size=weights.shape).astype(np.float32)
        velocity *= np.float32(0.9)
        velocity -= np.float32(0.01) * (weights - batch.sum(0) + noise)  # elementwise: the same bits whatever the cores
        weights += velocity
        time.sleep(pause_s)
        ckpt.step(loss=float(np.abs(velocity[0]).sum()))
        if committed() != known:
            known = committed()
            tell("committed", token=known[0], step=known[1])
    ckpt.end_epoch(loss=float(epochs - epoch))
    print("epoch", epoch, "of", epochs, "is over", flush=True)
if committed() != known:
    tell("committed", token=committed()[0], step=committed()[1])
np.save("weights.npy", weights)
tell("end", step=ckpt.step_count)
