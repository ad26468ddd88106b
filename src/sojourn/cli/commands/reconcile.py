"""`sojourn reconcile`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "compare a sweep's cells with the results here, and repair gaps"
GROUP, PLACE = "Sweeps and results", 410
ABOUT = (
    "Reports which cells are here and load, exist but were not pulled, are missing, failed (and why), never started,"
    " or ran on two boxes. --repair restarts, with the identical specification, cells that failed, never started, or"
    " were lost with their box.",
    "A box that does not answer may still be working: its cells are placed elsewhere only if its lease is gone or"
    " you abandon it by name.",
)
EXAMPLES = (
    ("sojourn reconcile ablation", "list cells without verified results, and why"),
    ("sojourn reconcile ablation --repair", "restart cells that failed or never started"),
    ("sojourn reconcile ablation --repair --abandon box3", "also restart the cells of a box that is gone for good"),
)
EXITS = (
    (0, "every cell has verified results here, exactly once"),
    (1, "a cell is missing, failed, duplicated or not pulled yet"),
    (2, "no such sweep, or the site to abandon answers"),
    (3, "everything missing is on boxes that cannot be reached"),
    (4, "refused: the lease is cleared for release, and its name was not given"),
    (5, "a box returned an error"),
)
INTERRUPTED = "Restarts already requested stand; run the same command again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("sweep", metavar="SWEEP", help="a sweep (any unique prefix of its name)")
    parser.add_argument("--repair", action="store_true", help="restart cells that failed, were lost, or never started")
    parser.add_argument(
        "--abandon",
        action="append",
        default=[],
        metavar="SITE",
        help="give up this unreachable site's cells; repeatable",
    )
    parser.add_argument("--sites", default="", metavar="A,B", help="also place cells on these sites")
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.parser import BadCommandLine
    from sojourn.cli.show import reconcile as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.reconcile import reconcile

    if args.abandon and not args.repair:
        raise BadCommandLine(detail="--abandon needs --repair", help="sojourn reconcile")
    sites = [name for name in args.sites.split(",") if name]
    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm, doing="start on it anyway")) as ctx:
        answer = reconcile(ctx, args.sweep, repair=args.repair, abandon=args.abandon, sites=sites)
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
