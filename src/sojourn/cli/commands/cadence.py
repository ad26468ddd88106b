"""`sojourn cadence`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "how often to write a checkpoint"
GROUP, PLACE = "Prepare", 160
ABOUT = (
    "The interval that loses the least: writing more often costs more time, writing less often costs more work at the"
    " next interruption (Young 1974). The Checkpointer of sojourn.train measures all of it and does this by itself.",
)
EXAMPLES = (
    ("sojourn cadence --mtbf 6h --write 40s", "a spot machine taken away every six hours, a slow disk"),
    ("sojourn cadence --mtbf 1d --write 2s --step 350ms", "in whole steps"),
)
EXITS = ((0, "that often"), (10, "a write takes so long that hardly any work is left"))


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "--mtbf", type=duration, required=True, metavar="TIME", help="mean time between interruptions: 6h, 2d"
    )
    parser.add_argument(
        "--write", type=duration, required=True, metavar="TIME", help="what one checkpoint costs the training"
    )
    parser.add_argument("--step", type=duration, default=0.0, metavar="TIME", help="one step: answer in whole steps")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import cadence as show
    from sojourn.verbs.explain.cadence import cadence

    answer = cadence(args.mtbf, args.write, args.step)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
