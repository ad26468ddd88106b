"""`sojourn smoke`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration, pair
from sojourn.cli.screen import Screen

SUMMARY = "the job's `smoke` command here, on CPU, before any money"
GROUP, PLACE = "Prepare", 150
ABOUT = (
    "Runs it in a private copy of what would be pushed, so a file that .gitignore keeps back is missed now and not on"
    " the rented machine. No GPU is visible, experiment trackers are switched off, and nothing is left behind.",
    "It runs in this environment: `setup` is not run.",
)
EXAMPLES = (
    ("sojourn smoke", "for ./sojourn.yaml"),
    ("sojourn smoke --timeout 2m", "give it two minutes"),
)
EXITS = (
    (0, "it ended well"),
    (1, "it did not; its last lines are shown"),
    (2, "the job file is wrong, or has no `smoke` line"),
)
INTERRUPTED = "The smoke command was ended and its copy removed."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the job file (default: ./sojourn.yaml)")
    parser.add_argument(
        "--env", action="append", default=[], type=pair, metavar="K=V", help="set a variable; may be repeated"
    )
    parser.add_argument(
        "--timeout", type=duration, default=300.0, metavar="TIME", help="end it after this long (default: 5m)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import smoke as show
    from sojourn.verbs.project.smoke import smoke

    answer = smoke(args.file, env=dict(args.env), timeout_s=args.timeout, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
