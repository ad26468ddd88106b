"""`sojourn handbook`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "the exact commands to take a run over with a bare shell"
GROUP, PLACE = "Take over a run", 520
ABOUT = (
    "How to reach its box, see its log, tell whether it lives, stop it, go on with it, and copy and check what it made,"
    " without sojourn. Text that stands alone: save it before you need it.",
)
EXAMPLES = (("sojourn handbook digits > digits.txt", "to keep beside the project, or to give to a colleague"),)
EXITS = (
    (0, "shown; where the site does not answer, as last known"),
    (2, "no such run, or it was never launched"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run, or a unique beginning of its name")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
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
