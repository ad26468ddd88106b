"""`sojourn down`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_json
from sojourn.cli.screen import Screen

SUMMARY = "give a machine back, once everything owed is home and loaded"
ABOUT = (
    "Every output owed by every run of the lease must be home, unchanged on the box since, and loaded here; otherwise"
    " it is refused with a list of what is missing. Asks for the lease's name; -y never answers that.",
    "On a lease without a meter only the records are closed: nothing on the machine is deleted.",
)
EXAMPLES = (
    ("sojourn down digits", "the lease that the run digits is on"),
    ("sojourn down local --confirm local", "in a script: the exact name of the lease"),
    ("sojourn down local --abandon pixel-3", "give up what the run pixel-3 has not brought home"),
)
EXITS = (
    (0, "given back"),
    (1, "gone already, and something was lost with it"),
    (2, "no such lease, site or run"),
    (3, "the other side cannot be reached"),
    (4, "refused: something is not home, or the name was not given"),
)
INTERRUPTED = "See sojourn leases; the identical `sojourn down` goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "target", metavar="LEASE|SITE|RUN", help="a run stands for its lease, with every other run on it"
    )
    parser.add_argument(
        "--abandon",
        nargs="+",
        action="extend",
        default=[],
        metavar="RUN",
        help="give up what these runs have not brought home",
    )
    add_confirm(parser, "LEASE")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import down as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.down import down

    with Context.open(say=screen.progress) as ctx:
        answer = down(ctx, args.target, confirm=confirm(screen, args.confirm), abandon=args.abandon)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
