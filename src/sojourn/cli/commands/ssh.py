"""`sojourn ssh`."""

from __future__ import annotations

import argparse
import sys

from sojourn.cli.commands import exec as exec_command
from sojourn.cli.screen import Screen

SUMMARY = "open a shell in the run's working copy and environment"
GROUP, PLACE = "While it runs", 315
ABOUT = (
    "A shell on the run's box, in the working copy of its newest attempt, with its environment variables and its setup."
    " The training sees what you change there. On a cluster the shell is on the job's node while the job runs"
    " there, and on the login node otherwise.",
)
EXAMPLES = (("sojourn ssh digits", "look around; leave with exit"),)
EXITS = (
    (0, "the shell's own exit status is passed on"),
    (2, "no such run, or it was never launched"),
    (3, "cannot reach the box"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it; returns the shell's own exit status."""
    return exec_command.within(args.run, [], screen, has_terminal=sys.stdin.isatty() and screen.out_is_terminal)
