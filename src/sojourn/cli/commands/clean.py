"""`sojourn clean`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_giving_up, add_json
from sojourn.cli.screen import Screen

SUMMARY = "what we left on a box, with sizes; removes what is home"
GROUP, PLACE = "Release and clean up", 440
ABOUT = (
    "Lists runs, code snapshots, environments, keepers and queues on the site's box. With names of runs it deletes"
    " their folders there: only when every output owed is home, unchanged on the box since, and loaded here. A run that"
    " lives is never removed.",
    "With --unused it deletes what no run on the box refers to. Asks for the run's name (of several runs, and for"
    " --unused, the site's); -y never answers that.",
)
EXAMPLES = (
    ("sojourn clean ssh:gpu1", "lists, and removes nothing"),
    ("sojourn clean ssh:gpu1 digits", "delete the folder of a run that is home"),
    ("sojourn clean ssh:gpu1 --abandon pixel-3", "and of one whose outputs are given up"),
    ("sojourn clean ssh:gpu1 --unused --confirm ssh:gpu1", "in a script"),
)
EXITS = (
    (0, "listed, or removed"),
    (2, "no such site or run"),
    (3, "the box cannot be reached"),
    (4, "refused: something is not home, or the name was not given"),
    (5, "the box refuses: something lives, or has changed since"),
)
INTERRUPTED = "The identical `sojourn clean` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("site", metavar="SITE", help="a site of the settings, local, or ssh:ALIAS")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="delete the folders of these runs on the box")
    parser.add_argument("--unused", action="store_true", help="delete what no run on the box refers to")
    add_giving_up(parser, "RUN|RUN:checkpoint")
    add_confirm(parser, "NAME")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import clean as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.release.clean import clean

    with Context.open(say=screen.progress) as ctx:
        given = confirm(screen, args.confirm)
        answer = clean(
            ctx, args.site, args.runs, unused=args.unused, abandon=args.abandon, accept=args.accept, confirm=given
        )
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
