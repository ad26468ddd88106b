"""`sojourn watch`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "follow runs in a live table until they finish"
GROUP, PLACE = "While it runs", 305
ABOUT = (
    "On a terminal, one table that updates in place. In a pipe or a log file, one line per change, and an occasional"
    " line when nothing is new. Sends notifications (see `sojourn notify`). Ending the command does not end any run.",
)
EXAMPLES = (
    ("sojourn watch", "every unfinished run"),
    ("sojourn watch digits --limit 1h", "one run, for at most an hour"),
    ("sojourn watch --json", "one JSON object per check"),
)
EXITS = (
    (0, "every run succeeded, and its results are here and verified"),
    (5, "a box returned an error or an invalid answer"),
    (100, "a run failed, was killed, ran out of memory or was lost"),
    (101, "not finished when the limit was reached"),
    (102, "no such run"),
    (103, "cancelled"),
    (110, "succeeded, but results are not all here and verified"),
    (111, "cannot reach the box"),
    (112, "stalled"),
    (113, "stopped by budget, time limit or danger clock"),
)
INTERRUPTED = "The runs continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep (any unique prefix of its name)")
    parser.add_argument(
        "--every",
        type=duration,
        default=2.0,
        metavar="TIME",
        help="first check interval (default: 2s); grows while nothing changes",
    )
    parser.add_argument(
        "--limit",
        type=duration,
        default=None,
        metavar="TIME",
        help="stop watching after this long (default: when all runs have finished)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli import live
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.watch import watch

    with Context.open(say=screen.progress) as ctx:
        looks = watch(ctx, args.runs, every_s=args.every, limit_s=args.limit)
        if args.json:
            last = None
            for last in looks:
                screen.show_json(last.as_json(), stream=True)
        elif screen.can_redraw:
            last = live.table(looks, screen)
        else:
            last = live.lines(looks, screen)
    return last.status.exit_status if last else 0
