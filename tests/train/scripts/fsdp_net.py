"""A small FSDP2 training for the kill tests, on gloo: every process holds a part of each parameter.

fsdp_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, pause_s, log, width, old (the first FSDP)
hold (behind step 50 it waits for that file)
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from sojourn.train import Checkpointer

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
dist.init_process_group("gloo", init_method=os.environ.get("STORE", "env://"), rank=rank, world_size=size)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randn(96, 2))
sampler = torch.utils.data.distributed.DistributedSampler(data, size, rank, seed=5)
loader = torch.utils.data.DataLoader(data, batch_size=8 // size, sampler=sampler)
width = int(more.get("width", 16))
model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 2))
model = FullyShardedDataParallel(model, device_id=torch.device("cpu")) if "old" in more else fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
torch.manual_seed(rank)
pace = {key: float(more[key]) for key in ("every_steps",) if key in more}
ckpt = Checkpointer(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader, folder=folder, **pace)
print("start", rank, ckpt.epoch, ckpt.step_count, ckpt.resumed, flush=True)
for epoch in ckpt.epochs(epochs):
    sampler.set_epoch(epoch)
    loss = torch.zeros(())
    for x, y in ckpt.batches(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(float(more.get("pause_s", 0)))
        while "hold" in more and ckpt.step_count >= 50 and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more and rank == 0:
            with open(more["log"], "a") as log:
                log.write("%d\n" % (ckpt.step_count + 1))
        ckpt.step(loss=loss)
    scheduler.step()
    ckpt.end_epoch(loss=loss)

whole = list(model.state_dict().values())
if "old" not in more:  # its optimizer has no state that could be made whole
    whole += [s[key] for s in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")]
with open("%s.%d" % (out, rank), "wb") as f:
    for value in whole:
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        f.write(value.detach().contiguous().numpy().tobytes())
    f.write(repr((scheduler.state_dict(), torch.rand(3))).encode())
dist.destroy_process_group()
