"""`sojourn cost`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "show what each lease and run has cost"
GROUP, PLACE = "Machines and money", 510
ABOUT = ("Includes closed leases. Every amount has its currency; amounts in different currencies are never added up.",)
EXAMPLES = (
    ("sojourn cost", "everything so far"),
    ("sojourn cost digits", "one run"),
)
EXITS = (
    (0, "listed"),
    (2, "no such run"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run (any unique prefix of its name)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import leases as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.cost import cost

    with Context.open(say=screen.progress) as ctx:
        answer = cost(ctx, args.runs)
    screen.answer(answer, show.lines, is_json=args.json)
    return 0
