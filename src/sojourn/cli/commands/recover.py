"""`sojourn recover`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "rebuild this machine's records of a site's runs"
GROUP, PLACE = "Take over a run", 605
ABOUT = (
    "Use it after losing this machine's state, or to work from a second machine. Every run on the box becomes known"
    " here, and all commands work on it. Runs already known are left alone; nothing on the box changes.",
    "If this machine's journal is damaged, recovering every run on a site makes up for the lost records, and leases"
    " on that site can be released again. If the box is gone for good, --accept-gap LEASE gives up whatever the lost"
    " records said about that lease.",
    "Receipts are not stored on the box: `sojourn pull` creates them again. Neither are a job file's hooks and"
    " notify settings.",
)
EXAMPLES = (
    ("sojourn recover local", "after losing this machine's state folder"),
    ("sojourn recover ssh:gpu1", "runs that you started there from another machine"),
    ("sojourn recover rented --accept-gap rented", "the journal is damaged and the lease's box is gone"),
)
EXITS = (
    (0, "every run on the box is known here"),
    (1, "a run was skipped: its name is taken here, or its records cannot be read"),
    (2, "no such site, or it has no such lease"),
    (3, "cannot reach the site"),
)
INTERRUPTED = "Run the same `sojourn recover` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("site", metavar="SITE", help="local, ssh:ALIAS, or a site from your settings")
    parser.add_argument(
        "--accept-gap",
        metavar="LEASE",
        default="",
        help="contact no box; give up what a damaged journal lost about this lease (exact name)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import recover as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.takeover.recover import accept_gap, recover

    with Context.open(say=screen.progress) as ctx:
        answer = accept_gap(ctx, args.site, args.accept_gap) if args.accept_gap else recover(ctx, args.site)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
