"""`sojourn up`."""

from __future__ import annotations

import argparse

from sojourn.cli.machine import add_machine, need_of
from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "rent a machine without a run yet"
GROUP, PLACE = "Machines and money", 504
ABOUT = (
    "Rents the machine with the lowest hourly cost, after you type its name, and waits until it answers. Start runs on"
    " it with --site NAME; `sojourn down NAME` releases it. The same command again finds the machine.",
    "A machine that cannot be reached within 15 minutes is released again: nothing can be on it.",
)
EXAMPLES = (
    ("sojourn up box1 --gpus A100:1", "the cheapest A100 of all providers with a key"),
    ("sojourn up box1 --provider lambda --gpus A10:1 --wait", "at one provider, as soon as it has one"),
    ("sojourn up cloud --confirm cloud", "the machine of the site cloud, from a script"),
)
EXITS = (
    (0, "the machine answers"),
    (2, "no API key, an unknown GPU, or the name is taken"),
    (3, "it is rented and does not answer yet, or it is unknown whether it was rented"),
    (4, "nobody agreed to rent it"),
    (5, "nothing fits, nothing is within the price, or the machine never became ready and was released"),
)
INTERRUPTED = "A machine may have been rented: run the same `sojourn up` again, or `sojourn leases`."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("name", metavar="NAME", help="what to call the machine, or a site whose provider rents")
    add_machine(parser)
    parser.add_argument("--wait", action="store_true", help="if none is available, keep asking until one is")
    parser.add_argument("--confirm", default="", metavar="NAME", help="agree in advance, by the machine's exact name")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import up as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.rent.up import up

    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm)) as ctx:
        answer = up(
            ctx,
            args.name,
            need=need_of(args),
            provider=args.provider,
            is_spot=args.spot,
            max_price=args.max_price,
            waits=args.wait,
        )
    screen.answer(answer, show.lines, is_json=args.json)
    return 0
