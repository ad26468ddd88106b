"""`sojourn sweep`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import BadCommandLine, add_json, add_reopen, metric, pair, whole
from sojourn.cli.screen import Screen

SUMMARY = "many cells over one or several boxes, in a queue on each"
GROUP, PLACE = "Run and monitor", 220
ABOUT = (
    "Expands the job file's sweep, refuses what would collide or not fit before anything runs, places the longest"
    " cells first, pushes the code once a box, and leaves each box a queue that goes on without this machine.",
    "The identical command again does nothing, or goes on where it was cut off; cells added to the job file are"
    " appended to the living sweep.",
    "`sweep results SWEEP` asks no box. It tells the metrics of every cell that is home and loaded, with its"
    " parameters, their spread over seeds, which way is better, and what each change of one variable did. Metrics are"
    " the numbers in the JSON, JSON-lines and CSV files that came home.",
)
EXAMPLES = (
    ("sojourn sweep", "every cell of ./sojourn.yaml, on its site or candidates"),
    ("sojourn sweep --sites gpu1,gpu2 --dry-run", "only say which cell would go where"),
    ("sojourn sweep --slots 2", "two cells at once on each box"),
    ("sojourn sweep results ablation", "what came of it"),
    ("sojourn sweep results ablation --metric accuracy=max --plot", "one metric, and a picture of it in ablation.png"),
    ("sojourn sweep results ablation --csv > ablation.csv", "a row a cell, for other programs"),
)
EXITS = (
    (0, "every cell is queued, or was; results: every cell counts"),
    (1, "results: some cells are not home and loaded, or have no metric"),
    (2, "the job file is wrong, cells collide, or a box would be oversubscribed"),
    (3, "a site cannot be reached"),
    (4, "refused: the lease was cleared to be stopped, and its name was not given"),
    (5, "a site answered with an error"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "What was queued goes on; the identical `sojourn sweep` queues the rest."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "file", nargs="?", default="", metavar="FILE", help="the job file (default: ./sojourn.yaml), or: results SWEEP"
    )
    parser.add_argument("sweep", nargs="?", default="", metavar="SWEEP", help="after `results`: a sweep's name")
    parser.add_argument("--sites", default="", metavar="A,B", help="place on these, whatever the job file says")
    parser.add_argument(
        "--slots", type=whole, default=0, metavar="N", help="cells at once on each box (as before, else one a GPU)"
    )
    parser.add_argument("--oversubscribe", action="store_true", help="also more cells at once than GPUs or CPUs")
    parser.add_argument(
        "--env", action="append", default=[], type=pair, metavar="K=V", help="set a variable; may be repeated"
    )
    parser.add_argument(
        "--balance", action="store_true", help="also move cells that wait to boxes that are done sooner"
    )
    parser.add_argument("--csv", action="store_true", help="results: a row a cell, for other programs")
    parser.add_argument(
        "--plot", nargs="?", const="", metavar="FILE", help="results: also a picture (default: SWEEP.png; .svg, .pdf)"
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        type=metric,
        metavar="M[=max]",
        help="results: only this metric, and which way is better (max or min); may be repeated",
    )
    parser.add_argument("--seeds", default="", metavar="A,B", help="results: variables that only repeat a cell")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be placed where")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before starting (it asks nothing)")
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    if args.file == "results":
        return _results(args, screen)
    if args.sweep or args.csv or args.plot is not None or args.metric or args.seeds:
        raise BadCommandLine(detail="SWEEP, --csv, --plot, --metric and --seeds go with results", help="sojourn sweep")
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import sweep as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.sweep import sweep

    sites = [name for name in args.sites.split(",") if name]
    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm)) as ctx:
        answer = sweep(
            ctx,
            args.file,
            sites=sites,
            slots=args.slots,
            oversubscribe=args.oversubscribe,
            env=dict(args.env),
            balance=args.balance,
            dry_run=args.dry_run,
        )
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _results(args: argparse.Namespace, screen: Screen) -> int:
    if not args.sweep:
        raise BadCommandLine(detail="results needs the name of a sweep", help="sojourn sweep")
    if args.csv and args.json:
        raise BadCommandLine(detail="--csv and --json are two answers: give one", help="sojourn sweep")
    from sojourn.cli.show import results as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.results import results

    with Context.open(say=screen.progress) as ctx:
        answer = results(ctx, args.sweep, metrics=args.metric, seeds=[s for s in args.seeds.split(",") if s])
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    if args.csv:
        screen.show(show.csv_lines(answer))
    else:
        screen.answer(answer, show.lines, is_json=args.json)
    if args.plot is not None:
        from sojourn.cli.show import picture

        screen.say(f"picture  {picture.write(answer, args.plot or f'{answer.id}.png')}")
    return answer.exit_status
