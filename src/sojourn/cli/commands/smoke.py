"""`sojourn smoke`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration, pair
from sojourn.cli.screen import Screen

SUMMARY = "run the job's `smoke` command here, on CPU, before you pay"
GROUP, PLACE = "Before a run", 210
ABOUT = (
    "Runs in a private copy of the code that would be pushed, so a file excluded by .gitignore is missed now and not"
    " on a rented machine. GPUs are hidden, experiment trackers are off, and the copy is removed afterwards.",
    "Uses the current Python environment; `setup` is not run.",
)
EXAMPLES = (
    ("sojourn smoke", "for ./sojourn.yaml"),
    ("sojourn smoke --timeout 2m", "allow two minutes"),
)
EXITS = (
    (0, "the command succeeded"),
    (1, "the command failed; its last lines are shown"),
    (2, "the job file is invalid, or has no `smoke` line"),
)
INTERRUPTED = "The smoke command was stopped and its copy removed."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the job file (default: ./sojourn.yaml)")
    parser.add_argument(
        "--env", action="append", default=[], type=pair, metavar="K=V", help="set an environment variable; repeatable"
    )
    parser.add_argument(
        "--timeout", type=duration, default=300.0, metavar="TIME", help="stop it after this long (default: 5m)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import smoke as show
    from sojourn.verbs.project.smoke import smoke

    answer = smoke(args.file, env=dict(args.env), timeout_s=args.timeout, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
