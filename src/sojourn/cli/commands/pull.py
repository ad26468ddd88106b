"""`sojourn pull`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "fetch outputs and logs, and verify every file by loading it"
GROUP, PLACE = "Every day", 145
ABOUT = (
    "Takes a manifest on the box, fetches the files that are not here yet, compares every hash and loads every file."
    " For each output it fetches the newest version that loads, whichever attempt wrote it; for a run that has not"
    " succeeded, also the newest checkpoint. After an interruption, the same command continues where it stopped."
    " Pulling from a live run fetches what exists so far.",
)
EXAMPLES = (
    ("sojourn pull", "every run with outputs that are not here yet"),
    ("sojourn pull digits --to results", "one run, into ./results"),
)
EXITS = (
    (0, "every required output is here and loads"),
    (1, "a required output is missing or does not load"),
    (2, "no such run"),
    (3, "cannot reach a box"),
    (5, "a box returned an error"),
)
INTERRUPTED = "Received data is kept; run the same `sojourn pull` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep (any unique prefix of its name)")
    parser.add_argument("--to", default="", metavar="DIR", help="destination folder; several runs get a subfolder each")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import pull as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.retrieve.pull import pull

    worst, some = 0, False
    with Context.open(say=screen.progress) as ctx:
        for answer in pull(ctx, args.runs, to=args.to):
            worst = max(worst, answer.exit_status)
            if args.json:
                screen.show_json(answer.as_json(), stream=len(args.runs) != 1)
            else:
                screen.show([*([""] if some else []), *show.lines(answer, screen.columns)])
            some = True
    if not some and not args.json:
        screen.show(show.nothing(screen.columns))
    return worst
