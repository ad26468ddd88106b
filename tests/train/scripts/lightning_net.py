"""A small model under the real Trainer of Lightning, for the kill tests: dropout, augmentation, scheduler, validation.

lightning_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, pause_s, log, workers, accumulate,
check (validate every so many batches of all), stream (a loader without a length),
stateful (torchdata's loader), hold (behind step 50 it waits for that file)
Several processes find each other by torchrun's environment, or by the file $STORE.
"""

import logging
import os
import sys
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

from sojourn.train import lightning

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if size > 1 and "STORE" in os.environ:
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="localhost", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", init_method=os.environ["STORE"], rank=rank, world_size=size)
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
torch.manual_seed(0)
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(96, 8), torch.randn(96, 2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.01 * torch.randn(8), self.y[index]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return map(data.__getitem__, torch.randperm(len(data)).tolist())


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
        self.steps = 0

    def on_train_epoch_start(self):
        torch.randn(3)

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.body(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("val", nn.functional.mse_loss(self.body(batch[0]), batch[1]) + torch.randn(()))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)]


class Watch(L.Callback):
    def on_train_start(self, trainer, module):
        print("start", trainer.current_epoch, flush=True)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        time.sleep(float(more.get("pause_s", 0)))
        while "hold" in more and trainer.global_step > 50 and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more and trainer.global_rank == 0:
            with open(more["log"], "a") as log:
                log.write("%d\n" % (trainer.current_epoch * 12 + index + 1))


data = Data()
shared, several = {"shuffle": True}, {"devices": 1}
if "stream" in more:
    shared = {}
if "check" in more:
    several.update(val_check_interval=int(more["check"]), check_val_every_n_epoch=None)
if size > 1:
    shared = {"sampler": torch.utils.data.distributed.DistributedSampler(data, size, rank, seed=5)}
    several.update(devices=size, strategy=DDPStrategy(process_group_backend="gloo"))
    several["plugins"] = [TorchElasticEnvironment()]
kind = torch.utils.data.DataLoader
if "stateful" in more:
    from torchdata.stateful_dataloader import StatefulDataLoader as kind
loader = kind(
    Stream() if "stream" in more else data, batch_size=8 // size, num_workers=int(more.get("workers", 0)), **shared
)
check = torch.utils.data.DataLoader(data, batch_size=48)
model = Net()
trainer = L.Trainer(
    max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[Watch()],
    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=out + ".work",
    accumulate_grad_batches=int(more.get("accumulate", 1)), **several,
)  # fmt: skip
pace = {"every_steps": int(more["every_steps"])} if "every_steps" in more else {}
lightning.fit(trainer, model, loader, check, folder=folder, **pace)
if rank:
    sys.exit()
with open(out, "wb") as f:
    for value in model.state_dict().values():
        f.write(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    f.write(repr([o.state_dict() for o in trainer.optimizers] + [torch.rand(3)]).encode())
