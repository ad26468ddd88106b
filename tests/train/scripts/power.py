"""Saves all the time, in a box that will lose its power: "said N" when step N was said to be saved.

power.py FOLDER WAY       WAY: here (inside step), there (by the writer process)

Before: "found {steps: whole checkpoints that lie there, newest: what this start goes on with}".
"""

import json
import os
import sys

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer

SIZE = 2 << 20


def pattern(count):
    return bytes([count % 251 + 1]) * SIZE


folder, way = sys.argv[1:]
steps = []
for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
    if name.startswith("ckpt-"):
        kept = torch_zip.read_zip(os.path.join(folder, name)).tree["state"]
        assert bytes(kept["bytes"]) == pattern(kept["count"]), name
        steps.append(kept["count"])
state = {"count": 0, "bytes": bytearray(SIZE)}
ckpt = Checkpointer(folder=folder, state=state, every_steps=1, background=way == "there", when_behind="wait")
print("found", json.dumps({"steps": steps, "newest": state["count"]}), flush=True)
while True:
    state["count"] += 1
    state["bytes"] = bytearray(pattern(state["count"]))
    ckpt.step()
    if ckpt.wait():
        print("said", state["count"], flush=True)
