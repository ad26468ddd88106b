"""`sojourn pull`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "bring outputs and logs home and prove every file by loading it"
GROUP, PLACE = "Retrieve and verify", 310
ABOUT = (
    "Takes the manifest on the box, fetches what is not home yet, compares every hash and loads every artifact here."
    " Of each output the newest that loads comes, whichever attempt made it; of a run that has not succeeded, also"
    " the newest checkpoint. Again after a cut it goes on where it was. A run that is still going is pulled as it"
    " stands.",
)
EXAMPLES = (
    ("sojourn pull", "every run that owes something"),
    ("sojourn pull digits --to results", "one run, into ./results"),
)
EXITS = (
    (0, "everything owed is home and loads"),
    (1, "something is missing or does not load"),
    (2, "no such run"),
    (3, "a box cannot be reached"),
    (5, "a box answered with an error"),
)
INTERRUPTED = "What has arrived is kept; the identical `sojourn pull` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep, or a unique beginning of its name")
    parser.add_argument(
        "--to", default="", metavar="DIR", help="into this folder; of several runs each into its own below it"
    )
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
