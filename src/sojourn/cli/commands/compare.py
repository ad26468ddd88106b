"""`sojourn compare`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "hold two acceptances against each other"
GROUP, PLACE = "Retrieve and verify", 360
ABOUT = (
    "Compared is what the files are and what they held, not who loaded them or with which libraries. Two acceptances of"
    " one machine are refused: they prove no more than one.",
)
EXAMPLES = (("sojourn compare laptop.json office.json", "two machines, one sealed run"),)
EXITS = (
    (0, "they say the same"),
    (1, "they differ"),
    (2, "one cannot be trusted, or both come from one machine"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("first", metavar="A", help="an acceptance")
    parser.add_argument("second", metavar="B", help="another, from another machine")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import accept as show
    from sojourn.verbs.retrieve.accept import compare

    answer = compare(args.first, args.second)
    screen.answer(answer, show.compared, is_json=args.json)
    return answer.exit_status
