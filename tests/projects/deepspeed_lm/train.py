"""A language model under DeepSpeed, whose engine saves and finds its checkpoints in one folder."""
import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint_dir", type=str, default="experiments/base")
parser.add_argument("--num_iterations", type=int, default=1000)
parser = deepspeed.add_config_arguments(parser)


def main():
    args = parser.parse_args()
    model = torch.nn.Linear(8, 8)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    start = 0
    _, client_state = engine.load_checkpoint(args.checkpoint_dir)
    if client_state is not None:
        start = client_state["checkpoint_step"]
    for step in range(start, args.num_iterations):
        loss = engine(torch.randn(4, 8)).pow(2).mean()
        engine.backward(loss)
        engine.step()
        if step % 100 == 0:
            engine.save_checkpoint(save_dir=args.checkpoint_dir, client_state={"checkpoint_step": step})


if __name__ == "__main__":
    main()
