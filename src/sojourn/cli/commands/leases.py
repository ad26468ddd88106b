"""`sojourn leases`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "list open leases with their cost and danger clocks"
GROUP, PLACE = "Machines and money", 505
ABOUT = (
    "Lists every lease that has not been released, what it has cost so far, and when the platform will stop or"
    " delete it.",
    "With --audit, asks every provider that you have a key for what your account really holds: machines, volumes,"
    " snapshots, file systems and addresses. Shows what is yours, what is not, and what you released that still bills."
    " Also asks each cluster what it still holds of your runs. A provider or cluster that cannot be asked counts as"
    " unknown, never as clean.",
)
EXAMPLES = (
    ("sojourn leases", "every open lease"),
    ("sojourn leases --audit", "compare the providers' lists with the records of this machine"),
)
EXITS = (
    (0, "listed; with --audit, nothing bills but your open leases"),
    (1, "with --audit: something you released is still there, or a machine is gone"),
    (3, "with --audit: a provider could not be asked"),
    (10, "with --audit: something bills that no open lease covers"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "--audit", action="store_true", help="ask the providers what bills, and compare it with the records here"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import leases as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.leases import leases

    if args.audit:
        return _audit(args, screen)
    with Context.open(say=screen.progress) as ctx:
        answer = leases(ctx)
    screen.answer(answer, show.lines, is_json=args.json)
    return 0


def _audit(args: argparse.Namespace, screen: Screen) -> int:
    from sojourn.cli.show import audit as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.audit import audit

    with Context.open(say=screen.progress) as ctx:
        answer = audit(ctx)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
