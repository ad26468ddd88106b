"""A training that accumulates gradients over five batches, the last two of an epoch's twelve by themselves.

accumulated_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: by (raw, or accelerate), every_steps, pause_s,
background, log (a file that gets a line for every batch that is computed), hold (a file that it waits for behind
batch 50)
"""

import os
import sys
import time

import torch

from sojourn.train import Checkpointer

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
torch.manual_seed(0)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(96, 8), torch.randn(96, 2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.01 * torch.randn(8), self.y[index]


model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
loader = torch.utils.data.DataLoader(Data(), batch_size=8, shuffle=True)
if more["by"] == "accelerate":
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=5)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
ckpt = Checkpointer(
    model=model, optimizer=optimizer, scheduler=scheduler, loader=loader, folder=folder, when_behind="wait",
    every_steps=int(more.get("every_steps", 7)), background=bool(int(more.get("background", 0))),
)  # fmt: skip
print("start", ckpt.epoch, flush=True)


def learn(x, y, i):
    if more["by"] == "accelerate":
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        return
    (torch.nn.functional.mse_loss(model(x), y) / 5).backward()
    if (i + 1) % 5 == 0 or i + 1 == len(loader):
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


for _ in ckpt.epochs(epochs):
    for i, (x, y) in enumerate(ckpt.batches(loader)):
        learn(x, y, i)
        time.sleep(float(more.get("pause_s", 0)))
        while "hold" in more and ckpt.step_count >= 50 and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more:
            with open(more["log"], "a") as log:
                log.write("%d\n" % (ckpt.step_count + 1))
        ckpt.step()
with open(out, "wb") as f:
    for value in model.state_dict().values():
        f.write(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    f.write(repr((optimizer.state_dict(), scheduler.state_dict(), torch.rand(3))).encode())
