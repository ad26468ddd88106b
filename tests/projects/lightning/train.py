"""A linear model under Lightning's Trainer."""
import argparse
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar


class Model(L.LightningModule):
    def __init__(self, pause):
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)
        self.pause = pause

    def training_step(self, batch, batch_idx):
        time.sleep(self.pause)
        loss = self.layer(batch).pow(2).mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=300)
    parser.add_argument("--ckpt_path", default=None)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    data = torch.utils.data.DataLoader(torch.randn(8000, 32), batch_size=4)
    saver = ModelCheckpoint(dirpath="checkpoints", save_last=True, every_n_train_steps=20, save_top_k=-1)
    trainer = L.Trainer(
        max_steps=args.max_steps,
        callbacks=[saver, TQDMProgressBar(refresh_rate=1)],
        logger=False,
        accelerator="cpu",
        log_every_n_steps=10,
    )
    trainer.fit(Model(args.pause), data, ckpt_path=args.ckpt_path)
    print("finished at step", trainer.global_step)
