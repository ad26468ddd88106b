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
)
EXAMPLES = (("sojourn leases", "every open lease"),)
EXITS = ((0, "listed"),)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import leases as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.leases import leases

    with Context.open(say=screen.progress) as ctx:
        answer = leases(ctx)
    screen.answer(answer, show.lines, is_json=args.json)
    return 0
