"""Films a finished training; not the training."""
import argparse

import torch

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=100)
    parser.parse_args()
    torch.save({}, "film.pt")
