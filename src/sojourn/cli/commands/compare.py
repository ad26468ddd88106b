"""`sojourn compare`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "compare two acceptance reports"
GROUP, PLACE = "For experts", 725
ABOUT = (
    "Compares the files and their contents, and ignores who verified them and with which libraries. Two reports from"
    " the same machine are refused: the second proves nothing new.",
)
EXAMPLES = (("sojourn compare laptop.json office.json", "one sealed run, verified on two machines"),)
EXITS = (
    (0, "the reports agree"),
    (1, "the reports differ"),
    (2, "a report is invalid, or both come from one machine"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("first", metavar="A", help="an acceptance report")
    parser.add_argument("second", metavar="B", help="a report from another machine")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import accept as show
    from sojourn.verbs.retrieve.accept import compare

    answer = compare(args.first, args.second)
    screen.answer(answer, show.compared, is_json=args.json)
    return answer.exit_status
