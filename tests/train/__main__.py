"""`python -m tests.train --kind hf --seed 3`: strikes a training as its seed says, and tells its story and verdict."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.train import trials
from tests.train.forging import Forge


def main() -> int:
    """0 when all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.train", description=__doc__)
    parser.add_argument("--kind", choices=list(trials.KINDS), default="torch", help="the training")
    parser.add_argument("--seed", type=int, default=0, help="the (first) trial")
    parser.add_argument("--count", type=int, default=1, help="this many trials, from --seed on")
    args = parser.parse_args()
    broken = 0
    with tempfile.TemporaryDirectory() as folder, Forge(*trials.KINDS[args.kind].modules) as forge:
        played = trials.Trials(args.kind, forge, Path(folder))
        for seed in range(args.seed, args.seed + args.count):
            verdict = played.play(seed)
            broken += bool(verdict.breaches)
            if verdict.breaches or args.count == 1:
                print(*verdict.story, sep="\n")
            print(verdict, flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
