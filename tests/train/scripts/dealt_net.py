"""A training on gloo by any number of processes, that notes which samples each of its steps learnt from.

dealt_net.py FOLDER LOG STOP_AT [KEY=VALUE ...]      keys: fsdp, plain (a sampler that is not divided), workers
It ends behind step STOP_AT, in one epoch of 96 samples. LOG gets a line for every step: the samples' numbers.
"""

import os
import sys

import torch
import torch.distributed as dist

from sojourn.train import Checkpointer

folder, log, stop_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
dist.init_process_group("gloo", init_method=os.environ.get("STORE", "env://"), rank=rank, world_size=size)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.arange(96.0))
sampler = torch.utils.data.distributed.DistributedSampler(data, size, rank, seed=5)
if "plain" in more:
    sampler = torch.utils.data.SequentialSampler(data)
workers = int(more.get("workers", 0))
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler, num_workers=workers)
model = torch.nn.Linear(1, 1)
if "fsdp" in more:
    from torch.distributed.fsdp import fully_shard

    fully_shard(model)
else:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
ckpt = Checkpointer(model=model, optimizer=optimizer, loader=loader, folder=folder, every_steps=1000)
print("start", ckpt.step_count, flush=True)
for _ in ckpt.epochs(1):
    if "plain" not in more:
        sampler.set_epoch(7)
    for i, (x,) in enumerate(ckpt.batches(loader)):
        model(x[:, None] / 96).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ckpt.step()
        assert i + 1 == ckpt.step_count, (i, ckpt.step_count)
        with open("%s.%d" % (log, rank), "a") as f:
            f.write(" ".join(str(int(one)) for one in x) + "\n")
        if ckpt.step_count == stop_at:
            ckpt.save()
            ckpt.close()
            dist.destroy_process_group()
            sys.exit()
dist.destroy_process_group()
