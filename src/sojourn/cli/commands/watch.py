"""`sojourn watch`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "a live table until every run is final; says so when nothing is new"
GROUP, PLACE = "Run and monitor", 240
ABOUT = (
    "On a terminal one table that replaces itself; in a pipe or a log file a line for each change, and now and then"
    " one line that nothing is new. Ending it ends no run.",
)
EXAMPLES = (
    ("sojourn watch", "every run that is not final"),
    ("sojourn watch digits --limit 1h", "one run, for an hour at most"),
    ("sojourn watch --json", "one JSON object a look"),
)
EXITS = (
    (0, "every run succeeded, is home and verified"),
    (5, "a box answers with an error, or with what cannot be right"),
    (100, "a run failed, was killed, ran out of memory or was lost"),
    (101, "not finished when the limit was reached"),
    (102, "no such run"),
    (103, "cancelled"),
    (110, "succeeded, but not home and verified"),
    (111, "cannot be reached"),
    (112, "stalled"),
    (113, "ended by budget, walltime or clock"),
)
INTERRUPTED = "The runs go on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep, or a unique beginning of its name")
    parser.add_argument(
        "--every", type=duration, default=2.0, metavar="TIME", help="look so often at first (2s); rarer when quiet"
    )
    parser.add_argument(
        "--limit", type=duration, default=None, metavar="TIME", help="end after this long (default: when all is final)"
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
