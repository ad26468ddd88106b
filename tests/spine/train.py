"""A small training for the tests of the whole chain: EPOCHS PAUSE_S [GATE]. Its result depends on every epoch in order.

With GATE it waits before its fourth epoch until a file of that name exists.
"""

import hashlib
import json
import os
import sys
import time

from sojourn.train import Checkpointer, preempted


class Model:
    """Stirs a number; an epoch left out, or done twice, shows in the end."""

    value = "seed"

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


epochs, pause_s, gate = int(sys.argv[1]), float(sys.argv[2]), (*sys.argv[3:], "")[0]
model = Model()
ckpt = Checkpointer(model=model, every_epochs=1, best=("score", "max"))
print("attempt", os.environ.get("SOJOURN_ATTEMPT"), "begins at epoch", ckpt.epoch, flush=True)
for epoch in ckpt.epochs(epochs):
    while epoch == 3 and gate and not os.path.exists(gate) and not preempted():
        time.sleep(0.02)
    for _ in ckpt.batches([epoch]):
        model.value = hashlib.sha256(f"{model.value} {epoch}".encode()).hexdigest()
        time.sleep(pause_s)
        ckpt.step(score=float(epoch))
    print("epoch", epoch, "zażółć 数字", flush=True)
    ckpt.end_epoch(score=float(epoch))
with open("result.json", "w") as f:
    json.dump({"value": model.value, "epochs": epochs}, f)
print("done", flush=True)
