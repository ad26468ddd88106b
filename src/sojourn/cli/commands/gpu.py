"""`sojourn gpu`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "how a machine's cards are, and who holds them"
GROUP, PLACE = "Prepare", 130
ABOUT = (
    "Watches the cards through the driver's library, or nvidia-smi, for two seconds: memory, clocks, power, throttling,"
    " ECC, remapped rows, and Xid lines of the kernel's log. Clocks and power are judged while a card works; an idle"
    " card is slow and healthy.",
    "With --matmul cards that nobody uses multiply for some seconds, with the site's Python that has torch: the product"
    " must come out the same each time. Every process that holds a card is named, also those that no tool lists.",
)
EXAMPLES = (
    ("sojourn gpu", "this machine"),
    ("sojourn gpu ssh:gpu-box --matmul", "under load, cards in use left alone"),
    ("sojourn gpu lab --json", "for a script"),
)
EXITS = (
    (0, "nothing is wrong, or there are no cards"),
    (2, "there is no such site"),
    (3, "it cannot be reached"),
    (10, "warnings: a card slows itself down, or an orphan holds one"),
    (11, "a confirmed blocker: a card is lost or broken, or the driver is not there"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, or a name of the settings (default: local)",
    )
    parser.add_argument("--matmul", action="store_true", help="let cards that nobody uses multiply meanwhile")
    parser.add_argument(
        "--seconds",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="how long to watch, a minute at most (default: 2s; 5s with --matmul)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import gpu as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.explain.gpu import gpu

    with Context.open(say=screen.progress) as ctx:
        answer = gpu(ctx, args.site, matmul=args.matmul, seconds=args.seconds)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
