"""`sojourn recover`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "rebuild this machine's records of a site's runs from the box"
ABOUT = (
    "For a lost disk, and for a second machine to work from: every run that lies on the box becomes known here, and all"
    " commands work on it. Runs that are known already are left alone. Nothing on the box is changed.",
    "Receipts are not on the box: `sojourn pull` makes them anew. Hooks and notify of a job file are not there either.",
)
EXAMPLES = (
    ("sojourn recover local", "after the state folder of this machine was lost"),
    ("sojourn recover ssh:gpu1", "what another machine of yours has started there"),
)
EXITS = (
    (0, "every run on the box is known here"),
    (1, "one was left as it is: its name is taken here by another run, or it cannot be read"),
    (2, "no such site"),
    (3, "the site cannot be reached"),
)
INTERRUPTED = "The identical `sojourn recover` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("site", metavar="SITE", help="a site of the settings, local, or ssh:ALIAS")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import recover as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.recover import recover

    with Context.open(say=screen.progress) as ctx:
        answer = recover(ctx, args.site)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
