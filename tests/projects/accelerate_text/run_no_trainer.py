"""A text classifier under Accelerate, in the style of the no_trainer examples."""
import argparse
import os
import time

import torch
from accelerate import Accelerator


def parse_args():
    parser = argparse.ArgumentParser(description="Fine-tune a classifier")
    parser.add_argument("--num_train_epochs", type=int, default=6)
    parser.add_argument("--output_dir", type=str, default=None, help="Where to store the final model.")
    parser.add_argument(
        "--checkpointing_steps",
        type=str,
        default=None,
        help="Whether the various states should be saved at the end of every n steps, or 'epoch' for each epoch.",
    )
    parser.add_argument(
        "--resume_from_checkpoint", type=str, default=None, help="If the training should continue from a checkpoint."
    )
    return parser.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(torch.randn(60, 8), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    completed_steps, starting_epoch = 0, 0
    if args.resume_from_checkpoint:
        accelerator.print(f"Resumed from checkpoint: {args.resume_from_checkpoint}")
        accelerator.load_state(args.resume_from_checkpoint)
        path = os.path.basename(args.resume_from_checkpoint)
        starting_epoch = int(os.path.splitext(path)[0].replace("epoch_", "")) + 1
        completed_steps = starting_epoch * len(loader)
    for epoch in range(starting_epoch, args.num_train_epochs):
        for batch in loader:
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            completed_steps += 1
            time.sleep(0.1)
            accelerator.print(f"epoch {epoch}: step {completed_steps} loss {loss.item():.4f}", flush=True)
        if args.checkpointing_steps == "epoch":
            output_dir = f"epoch_{epoch}"
            if args.output_dir is not None:
                output_dir = os.path.join(args.output_dir, output_dir)
            accelerator.save_state(output_dir)
    if args.output_dir is not None:
        accelerator.wait_for_everyone()
        accelerator.save_model(model, args.output_dir)


if __name__ == "__main__":
    main()
