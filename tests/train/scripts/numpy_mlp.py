"""A small training in numpy for the kill tests: everything a script may keep, and final weights as bytes in a file.

numpy_mlp.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, every_s, width, pause_s,
                                                    background, hold (a file that it waits for in the second epoch)
"""

import os
import random
import sys
import time

import numpy as np

from sojourn.train import Batches, Checkpointer

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
width, pause_s = int(more.get("width", 24)), float(more.get("pause_s", 0.0))

random.seed(1)
np.random.seed(2)
rng = np.random.default_rng(3)
x = rng.normal(size=(200, 8)).astype(np.float32)
y = (x[:, :3] @ rng.normal(size=(3, 2))).astype(np.float32)

weights = {
    "w1": rng.normal(size=(8, width)).astype(np.float32),
    "b1": np.zeros(width, np.float32),
    "w2": np.asfortranarray(rng.normal(size=(width, 2)).astype(np.float32)),
}
alias = weights["w1"]  # other references to the arrays must see what is restored
velocity = [np.zeros_like(value) for value in weights.values()]
seen = {"loss": np.float64(0), "noise": [], "batches": 0}

data = Batches(x, y, size=16, rng=rng)
pace = {key: float(more[key]) for key in ("every_s", "every_steps") if key in more}
if "background" in more:
    pace["background"] = bool(int(more["background"]))
ckpt = Checkpointer(
    folder=folder, loader=data, best=("loss", "min"), weights=weights, velocity=velocity, seen=seen, rng=rng, **pace
)
print("start", ckpt.epoch, ckpt.step_count, ckpt.resumed, flush=True)
for _ in ckpt.epochs(epochs):
    seen["loss"] = np.float64(0)  # the top of an epoch changes items and draws random numbers
    shift = rng.normal(scale=0.01, size=8).astype(np.float32)
    for xb, yb in ckpt.batches():
        keep = np.random.random(width) > 0.2
        noise = random.gauss(0, 0.01)
        hidden = np.maximum((xb + shift + noise) @ weights["w1"] + weights["b1"], 0) * keep
        error = hidden @ weights["w2"] - yb
        back = (error @ weights["w2"].T) * (hidden > 0)
        slopes = [(xb + shift + noise).T @ back, back.sum(0), hidden.T @ error]
        for value, speed, slope in zip(weights.values(), velocity, slopes):
            speed *= np.float32(0.9)
            speed -= np.float32(0.0005) * slope
            value += speed
        loss = float((error**2).mean())
        seen["loss"] += loss
        seen["batches"] += 1
        if pause_s:
            time.sleep(pause_s)
        while "hold" in more and ckpt.epoch and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        ckpt.step(loss=loss)
    seen["noise"].append(random.random())
    ckpt.end_epoch(loss=float(seen["loss"]))

assert alias is weights["w1"]
with open(out, "wb") as f:
    for array in [*weights.values(), *velocity]:
        f.write(np.ascontiguousarray(array).tobytes())
    f.write(repr((seen, rng.random(), np.random.random(), random.random(), ckpt.step_count)).encode())
