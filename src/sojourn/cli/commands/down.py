"""`sojourn down`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_giving_up, add_json
from sojourn.cli.screen import Screen

SUMMARY = "give a machine back, once everything owed is home and loaded"
GROUP, PLACE = "Release and clean up", 410
ABOUT = (
    "Every output of every run on the machine must be home, unchanged on the machine since, and loaded here, and so"
    " must the newest checkpoint of a run that has not succeeded. Otherwise the command is refused and lists what is"
    " missing. Asks for the lease's name; -y never answers that.",
    "Runs that another client started on the same machine count too: recover them, or give them up by name.",
    "On a lease without a meter only the records are closed: nothing on the machine is deleted.",
    "A machine that only you can stop is cleared first; once it is stopped, say so with --already-stopped.",
)
EXAMPLES = (
    ("sojourn down digits", "the lease that the run digits is on"),
    ("sojourn down local --confirm local", "in a script: the exact name of the lease"),
    ("sojourn down local --abandon pixel-3", "give up what the run pixel-3 has not brought home"),
    ("sojourn down gpu1 --abandon pixel-3:checkpoint", "give up only the checkpoint that pixel-3 would resume from"),
    ("sojourn down gpu1 --accept pixel-3:table.parquet", "accept a file that is home and was not loaded"),
    ("sojourn down gpu1 --already-stopped", "you stopped it in the provider's console"),
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
    add_giving_up(parser, "RUN|RUN:checkpoint|BOX:BASE/RUN")
    parser.add_argument(
        "--keep-disk", action="store_true", help="stop the machine in the way that keeps its disk, where it has one"
    )
    parser.add_argument(
        "--already-stopped",
        action="store_true",
        help="you stopped the machine yourself: end its meter in the records, and list what is lost",
    )
    add_confirm(parser, "LEASE")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import down as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.release.down import down

    with Context.open(say=screen.progress) as ctx:
        answer = down(
            ctx,
            args.target,
            confirm=confirm(screen, args.confirm),
            abandon=args.abandon,
            accept=args.accept,
            keeps_disk=args.keep_disk,
            is_stopped=args.already_stopped,
        )
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
