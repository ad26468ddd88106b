"""`sojourn recover`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "rebuild this machine's records of a site's runs from the box"
GROUP, PLACE = "Take over a run", 510
ABOUT = (
    "For a lost disk, and for a second machine to work from: every run that lies on the box becomes known here, and all"
    " commands work on it. Runs that are known already are left alone. Nothing on the box is changed.",
    "Where the journal of this machine was damaged, this makes its lost records good: once every run on a site's box"
    " is known again, the damage holds no lease of that site. For a box that is gone for good, --accept-gap LEASE"
    " says that what was lost on that lease is given up.",
    "Receipts are not on the box: `sojourn pull` makes them anew. Hooks and notify of a job file are not there either.",
)
EXAMPLES = (
    ("sojourn recover local", "after the state folder of this machine was lost"),
    ("sojourn recover ssh:gpu1", "what another machine of yours has started there"),
    ("sojourn recover rented --accept-gap rented", "the box of that lease is gone, and the journal is damaged"),
)
EXITS = (
    (0, "every run on the box is known here"),
    (1, "one was left as it is: its name is taken here by another run, or it cannot be read"),
    (2, "no such site, or no such lease of it"),
    (3, "the site cannot be reached"),
)
INTERRUPTED = "The identical `sojourn recover` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("site", metavar="SITE", help="a site of the settings, local, or ssh:ALIAS")
    parser.add_argument(
        "--accept-gap",
        metavar="LEASE",
        default="",
        help="asks no box: what the damaged journal has lost holds this one lease, by its exact name, no more",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import recover as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.takeover.recover import accept_gap, recover

    with Context.open(say=screen.progress) as ctx:
        answer = accept_gap(ctx, args.site, args.accept_gap) if args.accept_gap else recover(ctx, args.site)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
