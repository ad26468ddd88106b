"""`sojourn cadence`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "compute how often to write a checkpoint"
GROUP, PLACE = "For experts", 710
ABOUT = (
    "Prints the checkpoint interval that wastes the least time: frequent checkpoints cost write time, rare ones cost"
    " work lost at the next interruption (Young 1974). The Checkpointer in sojourn.train measures both and picks the"
    " interval itself.",
)
EXAMPLES = (
    ("sojourn cadence --mtbf 6h --write 40s", "a spot instance preempted every six hours, on a slow disk"),
    ("sojourn cadence --mtbf 1d --write 2s --step 350ms", "rounded to whole steps"),
)
EXITS = (
    (0, "printed"),
    (10, "writing a checkpoint takes so long that little time is left for training"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "--mtbf", type=duration, required=True, metavar="TIME", help="mean time between interruptions: 6h, 2d"
    )
    parser.add_argument(
        "--write", type=duration, required=True, metavar="TIME", help="time one checkpoint takes away from training"
    )
    parser.add_argument(
        "--step",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="duration of one step; also print the interval in steps",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import cadence as show
    from sojourn.verbs.explain.cadence import cadence

    answer = cadence(args.mtbf, args.write, args.step)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
