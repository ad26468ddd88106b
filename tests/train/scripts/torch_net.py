"""A small training in PyTorch for the kill tests: two optimizers, schedulers, EMA, scaler, dropout, augmentation, a
DataLoader.

    torch_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, every_s, workers, generator, stateful,
    pause_s, background, log (a file that gets a line for every step that is computed), hold (a file that it waits for
    behind step 50, or hold_at)
"""

import os
import random
import sys
import time

import torch
from torch import nn

from sojourn.train import Checkpointer

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = dict(pair.split("=") for pair in sys.argv[4:])
workers, pause_s = int(more.get("workers", 0)), float(more.get("pause_s", 0.0))
torch.set_num_threads(1)
torch.manual_seed(0)
random.seed(0)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(96, 8), torch.randn(96, 2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.01 * torch.randn(8) + 0.01 * random.random(), self.y[index]


own = torch.Generator().manual_seed(7) if "generator" in more else None
if "stateful" in more:
    from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader
else:
    from torch.utils.data import DataLoader
loader = DataLoader(Data(), batch_size=8, shuffle=True, num_workers=workers, generator=own)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
first = torch.optim.AdamW(model[0].parameters(), lr=0.01)
second = torch.optim.SGD(model[4].parameters(), lr=0.01, momentum=0.9)
epochal = torch.optim.lr_scheduler.MultiStepLR(first, [1, 1, 2], gamma=0.5)
stepwise = torch.optim.lr_scheduler.OneCycleLR(second, max_lr=0.05, total_steps=12 * 15)
scaler = torch.amp.GradScaler("cpu")
pace = {key: float(more[key]) for key in ("every_s", "every_steps") if key in more}
background = bool(int(more["background"])) if "background" in more else None
ckpt = Checkpointer(
    model=model, ema=ema, first=first, second=second, epochal=epochal, stepwise=stepwise, scaler=scaler,
    loader=loader, folder=folder, best=("loss", "min"), background=background, when_behind="wait", **pace,
)  # fmt: skip
print("start", ckpt.epoch, ckpt.step_count, ckpt.resumed, flush=True)
for _ in ckpt.epochs(epochs):
    model.train()
    loss = torch.zeros(())
    for x, y in ckpt.batches(loader):
        loss = nn.functional.mse_loss(model(x), y)
        first.zero_grad()
        second.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(first)
        scaler.step(second)
        scaler.update()
        stepwise.step()
        ema.update_parameters(model)
        time.sleep(pause_s)
        while "hold" in more and ckpt.step_count >= int(more.get("hold_at", 50)) and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more:
            with open(more["log"], "a") as log:
                log.write("%d\n" % (ckpt.step_count + 1))
        ckpt.step(loss=loss)
    epochal.step()
    ckpt.end_epoch(loss=loss)

with open(out, "wb") as f:
    for module in (model, ema):
        for value in module.state_dict().values():
            f.write(
                value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                if value.ndim
                else repr(value.item()).encode()
            )
    for optimizer in (first, second):
        f.write(repr(optimizer.state_dict()).encode())
    f.write(
        repr(
            (epochal.state_dict(), stepwise.state_dict(), scaler.state_dict(), torch.rand(3), random.random())
        ).encode()
    )
