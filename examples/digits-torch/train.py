"""Handwritten digits with a small convolutional network in PyTorch: DataLoader, optimizer, scheduler, all resumable.

The data are those of the numpy example next door: the 1,797 digits of 8 x 8 pixels that scikit-learn carries, 1,200 to
learn from, 297 to choose the best epoch by, 300 looked at only at the very end.
"""

import argparse
import json
import os

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

from sojourn.train import Checkpointer


class Digits(Dataset):
    """Rows of the data as images; those to learn from move by up to one pixel each time they are read."""

    def __init__(self, rows, moves):
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))[rows]
        images = torch.tensor(digits.images, dtype=torch.float32)[order] / 16
        self.images = nn.functional.pad(images, (1, 1, 1, 1)).unsqueeze(1)
        self.labels = torch.tensor(digits.target)[order]
        self.moves = moves

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        i, j = torch.randint(0, 3, (2,)).tolist() if self.moves else (1, 1)
        return self.images[index, :, i : i + 8, j : j + 8], self.labels[index]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2),
        nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


@torch.no_grad()
def predict(model, data):
    """(labels, what the model says)."""
    model.eval()
    pairs = [(labels, model(images).argmax(1)) for images, labels in DataLoader(data, batch_size=300)]
    return torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs])


def accuracy(model, data):
    labels, said = predict(model, data)
    return (labels == said).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(1)
    train, choose, test = Digits(slice(1200), True), Digits(slice(1200, 1497), False), Digits(slice(1497, None), False)
    loader = DataLoader(train, batch_size=32, shuffle=True, num_workers=args.workers)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

    ckpt = Checkpointer(
        model=model, optimizer=optimizer, scheduler=scheduler, loader=loader, keep=2, best=("accuracy", "max")
    )
    for epoch in ckpt.epochs(args.epochs):
        model.train()
        for images, labels in ckpt.batches(loader):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ckpt.step(loss=loss)
        scheduler.step()
        score = accuracy(model, choose)
        print("epoch %2d  loss %.4f  accuracy %.4f" % (epoch + 1, loss.item(), score), flush=True)
        ckpt.end_epoch(accuracy=score)  # the last thing in an epoch

    torch.save(model.state_dict(), "final.pt")
    model.load_state_dict(ckpt.best_state()["model"])  # of the best epoch, read from checkpoints/best.pt
    labels, said = predict(model, test)
    metrics = {"test_accuracy": (labels == said).float().mean().item(), "epochs": ckpt.epoch, "steps": ckpt.step_count}
    print("test accuracy %.4f" % metrics["test_accuracy"], flush=True)
    np.savez("predictions.npz", digit=labels.numpy(), predicted=said.numpy())
    with open("metrics.json.new", "w") as f:
        json.dump(metrics, f)
    os.replace("metrics.json.new", "metrics.json")


if __name__ == "__main__":
    main()
