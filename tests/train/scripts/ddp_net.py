"""A small DistributedDataParallel training for the kill tests, on gloo: a DistributedSampler, dropout, augmentation.

    ddp_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, pause_s, log, background, plain (no DDP)
hold (behind step 50 it waits for that file)
Processes find each other by torchrun's environment, or by the file $STORE.
"""

import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

from sojourn.train import Checkpointer

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
dist.init_process_group("gloo", init_method=os.environ.get("STORE", "env://"), rank=rank, world_size=size)
torch.manual_seed(0)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(96, 8), torch.randn(96, 2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.01 * torch.randn(8) + 0.01 * random.random(), self.y[index]


data = Data()
sampler = torch.utils.data.distributed.DistributedSampler(data, size, rank, seed=5)
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
bare = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
model = bare if "plain" in more else nn.parallel.DistributedDataParallel(bare)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(rank)  # each draws its own
random.seed(rank)
pace = {key: float(more[key]) for key in ("every_steps",) if key in more}
background = bool(int(more["background"])) if "background" in more else None
ckpt = Checkpointer(
    model=model, optimizer=optimizer, loader=loader, folder=folder, best=("loss", "min"), background=background,
    when_behind="wait", **pace,
)  # fmt: skip
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
    ckpt.end_epoch(loss=loss)

for buffer in bare.buffers():  # as before every batch: those of the first process are what counts
    dist.broadcast(buffer, 0)
with open("%s.%d" % (out, rank), "wb") as f:
    for value in bare.state_dict().values():
        f.write(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    f.write(repr((optimizer.state_dict(), torch.rand(3), random.random())).encode())
dist.destroy_process_group()
