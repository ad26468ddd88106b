"""`sojourn reap`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_json
from sojourn.cli.screen import Screen

SUMMARY = "end leftover processes that hold a card, each proven"
GROUP, PLACE = "Release and clean up", 450
ABOUT = (
    "Lists who holds the cards of a machine, and what is left over of our runs there, with the proof that nobody waits"
    " for it: its run is over by its own records, or its parent is gone. That a process is idle, or that no tool lists"
    " it, proves nothing; it is shown and never ended. Nor is another user's.",
    "Asks for the name: of one process PID@START, number and start time together, of several the site's; -y never"
    " answers that. The machine proves each again just before it ends it.",
)
EXAMPLES = (
    ("sojourn reap", "lists, and asks where there is something to end"),
    ("sojourn reap ssh:gpu1 4242@991237 --confirm 4242@991237", "in a script: exactly that process"),
    ("sojourn reap ssh:gpu1 --confirm ssh:gpu1", "every orphan of several that is proven"),
)
EXITS = (
    (0, "nothing is left over, or it was ended"),
    (1, "something could not be ended"),
    (2, "no such site, or no such orphan"),
    (3, "the machine cannot be reached"),
    (4, "there are orphans, and the name was not given: nothing was ended"),
    (5, "the machine was restarted meanwhile"),
)
INTERRUPTED = "The identical `sojourn reap` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, or a name of the settings (default: local)",
    )
    parser.add_argument("holders", nargs="*", metavar="PID@START", help="end these alone")
    add_confirm(parser, "NAME")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import reap as show
    from sojourn.verbs.confirm import NotConfirmed
    from sojourn.verbs.context import Context
    from sojourn.verbs.explain import reap

    with Context.open(say=screen.progress) as ctx:
        found = reap.look(ctx, args.site)
        try:
            answer = reap.end(ctx, found, args.holders, confirm=confirm(screen, args.confirm))
        except NotConfirmed:
            screen.answer(found, show.lines, is_json=args.json)  # what there is to end, for who could not be asked
            raise
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
