"""`sojourn why`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "what happened to a run, with evidence and the fix"
ABOUT = (
    "Judges a log, or an evidence file, by the catalog of known causes. The earliest cause stands first, what follows"
    " from it below; what was ruled out and by what is in --json. What is not known is said to be unknown, with the"
    " probe that would settle it.",
)
EXAMPLES = (
    ("sojourn why --log train.log", "a log, all of it, whoever wrote it"),
    ("sojourn why --evidence bundle.json", "what was recorded on a machine"),
    ("sojourn why --log train.log --json", "with everything that was weighed"),
)
EXITS = (
    (0, "nothing is wrong"),
    (1, "a cause was found"),
    (2, "no such file, or not an evidence file"),
    (10, "undetermined"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--log", default="", metavar="FILE", help="judge this log")
    parser.add_argument("--evidence", default="", metavar="FILE", help="judge this evidence file (JSON)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import why as show
    from sojourn.verbs import why

    if bool(args.log) == bool(args.evidence):
        raise Misuse(detail="give either --log FILE or --evidence FILE")
    answer = why.of_log(args.log, say=screen.progress) if args.log else why.of_evidence(args.evidence)
    if args.json:
        screen.show_json(answer.as_json())
    else:
        screen.show(show.lines(answer, screen.columns))
    return answer.exit_status
