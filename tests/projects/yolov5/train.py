"""Train a detector in the style of yolov5; usage: python train.py --data coco128.yaml --weights yolov5s.pt"""
import argparse
from pathlib import Path

import torch
from utils.general import get_latest_run, increment_path, yaml_save

ROOT = Path(__file__).resolve().parents[0]


def train(hyp, opt, device):
    save_dir = Path(opt.save_dir)
    w = save_dir / "weights"
    w.mkdir(parents=True, exist_ok=True)
    last, best = w / "last.pt", w / "best.pt"
    yaml_save(save_dir / "opt.yaml", vars(opt))
    start_epoch, best_fitness = 0, 0.0
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ckpt = torch.load(opt.weights, map_location="cpu")
    model.load_state_dict(ckpt["model"])
    if opt.resume:
        start_epoch = ckpt["epoch"] + 1
        optimizer.load_state_dict(ckpt["optimizer"])
    for epoch in range(start_epoch, opt.epochs):
        model(torch.randn(4, 4)).sum().backward()
        optimizer.step()
        ckpt = {"epoch": epoch, "best_fitness": best_fitness, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(ckpt, last)
        if best_fitness == epoch:
            torch.save(ckpt, best)


def parse_opt():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=str, default=ROOT / "yolov5s.pt")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--resume", nargs="?", const=True, default=False, help="resume most recent training")
    parser.add_argument("--evolve", type=int, nargs="?", const=300)
    parser.add_argument("--project", default=ROOT / "runs/train", help="save to project/name")
    parser.add_argument("--name", default="exp", help="save to project/name")
    parser.add_argument("--exist-ok", action="store_true")
    return parser.parse_args()


def main(opt):
    if opt.resume:
        opt.weights = opt.resume if isinstance(opt.resume, str) else get_latest_run()
    opt.save_dir = str(increment_path(Path(opt.project) / opt.name, exist_ok=opt.exist_ok))
    train({}, opt, torch.device("cpu"))


if __name__ == "__main__":
    main(parse_opt())
