"""`sojourn down`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_giving_up, add_json
from sojourn.cli.screen import Screen

SUMMARY = "release a machine once all required outputs are here and load"
GROUP, PLACE = "Every day", 150
ABOUT = (
    "Every required output of every run on the machine must have been pulled, must not have changed there since, and"
    " must load here; so must the newest checkpoint of any run that has not succeeded. Otherwise the command is"
    " refused and lists what is missing. To confirm, type the lease's name; -y does not answer this question.",
    "Runs that another client started on the machine count too: recover them first, or abandon them by name.",
    "For a lease without a meter, only the records are closed; nothing on the machine is deleted.",
    "If sojourn cannot stop the machine itself, `down` clears it for release first. Stop it, then run `down` again with"
    " --already-stopped.",
)
EXAMPLES = (
    ("sojourn down digits", "release the lease that the run digits is on"),
    ("sojourn down local --confirm local", "in a script: give the exact name of the lease"),
    ("sojourn down local --abandon pixel-3", "give up the results of pixel-3 that were not pulled"),
    ("sojourn down gpu1 --abandon pixel-3:checkpoint", "give up only the checkpoint pixel-3 would resume from"),
    ("sojourn down gpu1 --accept pixel-3:table.parquet", "accept a pulled file that could not be loaded"),
    ("sojourn down gpu1 --already-stopped", "you stopped it in the provider's console"),
)
EXITS = (
    (0, "released"),
    (1, "the machine was already gone, and data was lost with it"),
    (2, "no such lease, site or run"),
    (3, "cannot reach the box or the provider"),
    (4, "refused: some results were not pulled or do not load, or the name was not given"),
)
INTERRUPTED = "Check `sojourn leases`, then run the same `sojourn down` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "target",
        metavar="LEASE|SITE|RUN",
        help="what to release; a run means its whole lease, with every other run on it",
    )
    add_giving_up(parser, "RUN|RUN:PATH|RUN:checkpoint|BOX:BASE/RUN")
    parser.add_argument(
        "--keep-disk", action="store_true", help="stop the machine but keep its disk, if the platform can"
    )
    parser.add_argument(
        "--already-stopped",
        action="store_true",
        help="you stopped the machine yourself: close its lease here and list what was lost",
    )
    add_confirm(parser, "LEASE")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import down as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.release.down import down
    from sojourn.verbs.release.request import DownRequest

    asked = DownRequest(
        args.target,
        abandon=args.abandon,
        accept=args.accept,
        keeps_disk=args.keep_disk,
        is_stopped=args.already_stopped,
    )
    with Context.open(say=screen.progress) as ctx:
        answer = down(ctx, asked, confirm=confirm(screen, args.confirm, doing="release it"))
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
