"""Linear regression by hand, with a loop in the style of Keras."""
import argparse
import os
import sys
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--pause", type=float, default=0.01)
parser.add_argument("--weights", default="weights")
args = parser.parse_args()

rng = np.random.default_rng(0)
x = rng.normal(size=(1000, 200))
y = x @ rng.normal(size=200)
w, start = np.zeros(200), 0
os.makedirs(args.weights, exist_ok=True)
latest = os.path.join(args.weights, "latest.npz")
if os.path.exists(latest):
    with np.load(latest) as saved:
        w, start = saved["w"], int(saved["epoch"])

for epoch in range(start, args.epochs):
    print("Epoch %d/%d" % (epoch + 1, args.epochs))
    for step in range(1, args.steps + 1):
        rows = rng.integers(0, 1000, 64)
        error = x[rows] @ w - y[rows]
        w -= 0.01 * x[rows].T @ error / 64
        time.sleep(args.pause)
        bar = ("=" * (30 * step // args.steps - 1) + ">").ljust(30, ".")
        sys.stdout.write("\r%d/%d [%s] - loss: %.4f" % (step, args.steps, bar, (error**2).mean()))
    print()
    np.savez(latest, w=w, epoch=epoch + 1, history=np.zeros((epoch + 1, 20000)))
np.save("final.npy", w)
