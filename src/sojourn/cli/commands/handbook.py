"""`sojourn handbook`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "print the shell commands to take over a run without sojourn"
GROUP, PLACE = "Take over a run", 610
ABOUT = (
    "Prints exact commands to reach the box, read the log, check whether the run is alive, stop it, resume it, and"
    " copy and verify its results. The text needs nothing else: save it before you need it.",
)
EXAMPLES = (("sojourn handbook digits > digits.txt", "to keep with the project or give to a colleague"),)
EXITS = (
    (0, "printed; if the site does not answer, from the last known state"),
    (2, "no such run, or it was never launched"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import handbook as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.takeover.handbook import handbook

    with Context.open(say=screen.progress) as ctx:
        answer = handbook(ctx, args.run)
    if args.json:
        screen.show_json(answer.as_json())
    else:
        screen.show(show.lines(answer))
    return 0
