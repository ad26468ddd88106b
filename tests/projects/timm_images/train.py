"""Image training in the style of timm's train.py."""
import argparse
import os
from dataclasses import replace

import torch
from timm import create_model, utils
from timm.data import create_dataset, resolve_data_config
from timm.models import resume_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", metavar="DIR", default="../data/imagenette")
parser.add_argument("--model", default="resnet18")
parser.add_argument("--resume", default="", type=str, metavar="PATH", help="resume full model and optimizer state")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--output", default="", type=str, metavar="PATH", help="path to output folder")
parser.add_argument("--experiment", default="base", type=str)


def main():
    args = parser.parse_args()
    config = replace(resolve_data_config(vars(args)), crop_pct=0.9)
    dataset = create_dataset("", root=args.data_dir, **config)
    files = os.listdir(args.data_dir)
    model = create_model(args.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start_epoch = resume_checkpoint(model, args.resume, optimizer=optimizer) if args.resume else 0
    output_dir = utils.get_outdir(args.output if args.output else "./output/train", args.experiment)
    saver = utils.CheckpointSaver(model=model, optimizer=optimizer, args=args, checkpoint_dir=output_dir)
    for epoch in range(start_epoch, args.epochs):
        loss = model(dataset[len(files)]).sum()
        loss.backward()
        optimizer.step()
        utils.update_summary(epoch, {"loss": loss}, {}, filename=os.path.join(output_dir, "summary.csv"))
        saver.save_checkpoint(epoch, metric=1.0)


if __name__ == "__main__":
    main()
