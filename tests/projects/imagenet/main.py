"""Image classification in the style of PyTorch's ImageNet example, on generated pictures."""
import argparse
import os
import shutil
import time

import torch
from torch import nn

parser = argparse.ArgumentParser(description="Image training")
parser.add_argument("-a", "--arch", metavar="ARCH", default="small")
parser.add_argument("--epochs", default=12, type=int, metavar="N", help="number of total epochs to run")
parser.add_argument("--start-epoch", default=0, type=int, metavar="N", help="manual epoch number")
parser.add_argument("--resume", default="", type=str, metavar="PATH", help="path to latest checkpoint (default: none)")
parser.add_argument("-e", "--evaluate", dest="evaluate", action="store_true")
best_acc1 = 0


def main():
    args = parser.parse_args()
    main_worker(args)


def main_worker(args):
    global best_acc1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if args.resume:
        if os.path.isfile(args.resume):
            print("=> loading checkpoint '{}'".format(args.resume))
            checkpoint = torch.load(args.resume)
            args.start_epoch = checkpoint["epoch"]
            best_acc1 = checkpoint["best_acc1"]
            model.load_state_dict(checkpoint["state_dict"])
            optimizer.load_state_dict(checkpoint["optimizer"])
        else:
            print("=> no checkpoint found at '{}'".format(args.resume))
    for epoch in range(args.start_epoch, args.epochs):
        train(model, optimizer, epoch)
        acc1 = 10.0 + epoch
        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "arch": args.arch,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
            },
            is_best,
        )


def train(model, optimizer, epoch):
    for i in range(10):
        images, target = torch.randn(16, 3, 8, 8), torch.randint(0, 10, (16,))
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.08)
        print(f"Epoch: [{epoch}][{i + 1:3d}/10]\tTime  0.080 ( 0.080)\tLoss {loss.item():.4e} (2.3e+00)", flush=True)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()
