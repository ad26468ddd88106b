"""A character-level model, configured by nested nodes."""
import os
import time

import torch
from mingpt.utils import CfgNode as CN


def get_config():
    C = CN()
    C.system = CN()
    C.system.seed = 3407
    C.system.work_dir = "./out/chargpt"
    C.trainer = CN()
    C.trainer.max_iters = 80
    return C


if __name__ == "__main__":
    config = get_config()
    os.makedirs(config.system.work_dir, exist_ok=True)
    torch.manual_seed(config.system.seed)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    start = 0
    ckpt_path = os.path.join(config.system.work_dir, "model.pt")
    if os.path.exists(ckpt_path):
        state = torch.load(ckpt_path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["iter_num"]
    for iter_num in range(start + 1, config.trainer.max_iters + 1):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        time.sleep(0.1)
        print(f"iter_dt 100.00ms; iter {iter_num}: train loss {loss.item():.5f}", flush=True)
        if iter_num % 5 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num}
            torch.save(state, ckpt_path)
