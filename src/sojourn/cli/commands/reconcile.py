"""`sojourn reconcile`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "every cell expected, against what exists, against what loads"
GROUP, PLACE = "Retrieve and verify", 330
ABOUT = (
    "Tells apart what is home and loads, what exists and is not home, what is missing, what failed and why, what never"
    " began, and what two boxes began. With --repair it asks again, with the identical specification, for what failed"
    " or never began, and for what was lost with its box.",
    "A box that does not answer proves nothing: its cells are placed elsewhere only when its lease is gone, or when you"
    " give it up by name.",
)
EXAMPLES = (
    ("sojourn reconcile ablation", "say what is not home and loaded, and why"),
    ("sojourn reconcile ablation --repair", "ask again for what failed or never began"),
    ("sojourn reconcile ablation --repair --abandon box3", "also for the cells of a box that is gone for good"),
)
EXITS = (
    (0, "every cell is home and loads, exactly once"),
    (1, "something is missing, failed, doubled, or not home yet"),
    (2, "no such sweep, or the site to abandon answers"),
    (3, "all that lacks is on boxes that cannot be reached"),
    (4, "refused: the lease was cleared to be stopped, and its name was not given"),
    (5, "a box answered with an error"),
)
INTERRUPTED = "What was asked for again stays asked; the identical command goes on."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("sweep", metavar="SWEEP", help="a sweep, or a unique beginning of its name")
    parser.add_argument("--repair", action="store_true", help="ask again for what failed, was lost, or never began")
    parser.add_argument(
        "--abandon",
        action="append",
        default=[],
        metavar="SITE",
        help="give up what is on this site, which does not answer; may be repeated",
    )
    parser.add_argument("--sites", default="", metavar="A,B", help="also place cells on these")
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.parser import BadCommandLine
    from sojourn.cli.show import reconcile as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.reconcile import reconcile

    if args.abandon and not args.repair:
        raise BadCommandLine(detail="--abandon goes with --repair", help="sojourn reconcile")
    sites = [name for name in args.sites.split(",") if name]
    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm)) as ctx:
        answer = reconcile(ctx, args.sweep, repair=args.repair, abandon=args.abandon, sites=sites)
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
