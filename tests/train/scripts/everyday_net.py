"""Loops that people write, each small: 12 batches an epoch, one step for each.

everyday_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: by (persistent, iterable, scaler, swa, gan, recompute,
lora, peft, carried, evaluating), every_steps, pause_s, background, log (a file that gets a line for every step), hold
(a file that it waits for behind step 50)
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
by = more["by"]
torch.set_num_threads(1)
torch.manual_seed(0)
random.seed(0)
X, Y = torch.randn(96, 8), torch.randn(96, 2)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index] + 0.01 * torch.randn(8) + 0.01 * random.random(), Y[index]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for index in range(info.id, len(X), info.num_workers):
            yield Data()[index]


class Lora(nn.Module):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 16, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(nn.functional.dropout(self.down(x), 0.1, self.training))


class Recomputed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


def network():
    first = nn.Linear(8, 16)
    if by == "lora":
        first = Lora(first)
    middle = nn.Sequential(nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
    if by == "recompute":
        middle = Recomputed(nn.Sequential(nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.2)))
    return nn.Sequential(first, middle, nn.Linear(16, 2))


kinds = {
    "persistent": {"dataset": Data(), "shuffle": True, "num_workers": 2, "persistent_workers": True},
    "iterable": {"dataset": Stream(), "num_workers": 2, "prefetch_factor": 3},
}
loader = torch.utils.data.DataLoader(batch_size=8, **kinds.get(by, {"dataset": Data(), "shuffle": True}))
held = [(X[at : at + 16], Y[at : at + 16]) for at in range(0, 48, 16)]
model = network()
if by == "peft":
    import peft

    model = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_dropout=0.1, target_modules=["0"]))
items = {"model": model}
trained = [one for one in model.parameters() if one.requires_grad]
optimizer = items["optimizer"] = torch.optim.AdamW(trained, lr=0.01)
if by == "scaler":
    scaler = items["scaler"] = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=7)
if by == "swa":
    averaged = torch.optim.swa_utils
    ema = items["ema"] = averaged.AveragedModel(model, multi_avg_fn=averaged.get_ema_multi_avg_fn(0.9))
    swa = items["swa"] = averaged.AveragedModel(model)
    falling = items["falling"] = averaged.SWALR(optimizer, swa_lr=0.005, anneal_epochs=2)
if by == "gan":
    judge = items["judge"] = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    second = items["second"] = torch.optim.RMSprop(judge.parameters(), lr=0.01, momentum=0.5)
if by == "carried":
    rnn = items["rnn"] = nn.GRU(8, 8)
    carried = items["carried"] = {"hidden": torch.zeros(1, 8)}
    optimizer.add_param_group({"params": list(rnn.parameters())})
ckpt = Checkpointer(
    loader=loader, folder=folder, when_behind="wait", best=("loss", "min"), every_steps=int(more.get("every_steps", 7)),
    background=bool(int(more.get("background", 0))), **items,
)  # fmt: skip
print("start", ckpt.epoch, flush=True)


def learn(x, y):
    if by == "carried":
        x, hidden = rnn(x, carried["hidden"])
        carried["hidden"] = hidden.detach()
    if by == "gan":
        fake = model(x)
        second.zero_grad()
        (judge(fake.detach()).mean() - judge(y).mean()).backward()
        second.step()
        loss = -judge(fake).mean()
    else:
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    if by == "scaler":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(trained, 1.0)
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    if by == "swa":
        ema.update_parameters(model)
    return loss.detach()


@torch.no_grad()
def evaluate():
    model.eval()
    total = sum(float(nn.functional.mse_loss(model(x + 0.01 * torch.randn(16, 8)), y)) for x, y in held)
    model.train()
    return total


for epoch in ckpt.epochs(epochs):
    kept = ckpt.keep(lowest=1e9)
    for i, (x, y) in enumerate(ckpt.batches(loader)):
        loss = learn(x, y)
        if by == "evaluating" and (i + 1) % 5 == 0:
            kept.lowest = min(kept.lowest, evaluate())
        time.sleep(float(more.get("pause_s", 0)))
        while "hold" in more and ckpt.step_count >= 50 and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more:
            with open(more["log"], "a") as log:
                log.write("%d\n" % (ckpt.step_count + 1))
        ckpt.step(loss=loss)
    if by == "swa" and epoch > 0:
        swa.update_parameters(model)
        falling.step()
    ckpt.end_epoch(loss=kept.lowest if by == "evaluating" else ckpt.mean("loss"))
with open(out, "wb") as f:
    for name in sorted(items):
        state = items[name] if isinstance(items[name], dict) else items[name].state_dict()
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.ndim:
                f.write(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            else:
                f.write(repr(value).encode())
    f.write(repr((torch.rand(3), random.random())).encode())
