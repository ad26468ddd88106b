"""`python -m tests.crash --seed N`: plays one trial and tells its story and verdict; --count: several, side by side."""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from tests.crash import campaign


def main() -> int:
    """0 when all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the (first) trial")
    parser.add_argument("--count", type=int, default=1, help="this many trials, from --seed on")
    parser.add_argument("--kind", choices=tuple(campaign.PLAYS), default="crash", help="what fails")
    parser.add_argument(
        "--keep", default="", metavar="DIR", help="keep the stories of all trials here, and the folders of broken ones"
    )
    parser.add_argument("--at-once", type=int, default=campaign.SIDE_BY_SIDE, help="so many side by side")
    parser.add_argument("--record", type=Path, help="add verdicts to this file; what is in it is not played again")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none after this time")
    args = parser.parse_args()
    play = campaign.PLAYS[args.kind]
    with (
        campaign.stage(trainings=args.kind != "sweep") as on,
        tempfile.TemporaryDirectory(prefix="sojourn-trials-") as aside,
    ):
        folder = Path(args.keep or aside)
        seeds = range(args.seed, args.seed + args.count)
        verdicts = campaign.campaign(
            seeds,
            on,
            folder,
            play,
            lambda one: print(one, flush=True),
            at_once=args.at_once,
            record=args.record,
            for_s=60 * args.minutes,
        )
        for verdict in verdicts:
            if verdict.breaches or args.count == 1:
                print(f"\n--- seed {verdict.seed}", *verdict.story, sep="\n")
        print()
        print("kills:", dict(campaign.total(verdicts, "kills")))
        print("faults:", dict(campaign.total(verdicts, "faults")), "vain:", dict(campaign.total(verdicts, "vain")))
        broken = [verdict.seed for verdict in verdicts if verdict.breaches]
        print(f"{len(verdicts)} trials, {len(broken)} broken {broken}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
