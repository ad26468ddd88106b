"""`sojourn clean`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_giving_up, add_json
from sojourn.cli.screen import Screen

SUMMARY = "list what sojourn left on a machine, and delete what is safe"
GROUP, PLACE = "Machines and money", 515
ABOUT = (
    "Lists runs, code snapshots, environments, keepers and queues on the site, with their sizes. Given run names, it"
    " deletes their folders on the box, but only if every required output has been pulled, has not changed on the"
    " box since, and loads here. A live run is never deleted.",
    "--unused deletes whatever no run on the box refers to. To confirm, type the run's name (the site's name for"
    " several runs or --unused); -y does not answer this question.",
)
EXAMPLES = (
    ("sojourn clean ssh:gpu1", "list only; delete nothing"),
    ("sojourn clean ssh:gpu1 digits", "delete the folder of a run whose results are here"),
    ("sojourn clean ssh:gpu1 --abandon pixel-3", "also delete a run whose outputs you give up"),
    ("sojourn clean ssh:gpu1 --unused --confirm ssh:gpu1", "in a script"),
)
EXITS = (
    (0, "listed, or deleted"),
    (2, "no such site or run"),
    (3, "cannot reach the box"),
    (4, "refused: some results were not pulled or do not load, or the name was not given"),
    (5, "the box refused: something is still alive, or has changed since"),
)
INTERRUPTED = "Run the same `sojourn clean` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("site", metavar="SITE", help="local, ssh:ALIAS, or a site from your settings")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="delete the folders of these runs on the box")
    parser.add_argument("--unused", action="store_true", help="delete whatever no run on the box refers to")
    add_giving_up(parser, "RUN|RUN:PATH|RUN:checkpoint")
    add_confirm(parser, "NAME")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import clean as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.release.clean import clean

    with Context.open(say=screen.progress) as ctx:
        given = confirm(screen, args.confirm, doing="delete what is listed above")
        answer = clean(
            ctx, args.site, args.runs, unused=args.unused, abandon=args.abandon, accept=args.accept, confirm=given
        )
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
