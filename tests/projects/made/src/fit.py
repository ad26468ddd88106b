"""Fits a line; started by `make train`."""
import argparse
import time
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--save-dir", type=Path, required=True)
parser.add_argument("--resume", type=Path, default=None)
args = parser.parse_args()
args.save_dir.mkdir(parents=True, exist_ok=True)
weights, start = np.zeros(4), 0
if args.resume:
    state = np.load(args.resume)
    weights, start = state["weights"], int(state["step"])
for step in range(start + 1, args.steps + 1):
    weights = weights + 1
    time.sleep(0.1)
    print(f"step {step}/{args.steps} | loss {1 / step:.4f}", flush=True)
    if step % 5 == 0:
        with open(args.save_dir / "last.npz", "wb") as f:
            np.savez(f, weights=weights, step=step)
