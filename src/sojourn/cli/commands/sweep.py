"""`sojourn sweep`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import BadCommandLine, add_json, add_reopen, add_scheduling, metric, pair, whole
from sojourn.cli.screen import Screen

SUMMARY = "run a parameter sweep, queued on one or more boxes"
GROUP, PLACE = "Sweeps and results", 405
ABOUT = (
    "Expands the job file's sweep into cells, refuses anything that would collide or not fit before it starts,"
    " places the longest cells first, pushes the code once per box, and leaves each box a queue that runs without"
    " this machine.",
    "The same command again does nothing, or continues after an interruption. Cells added to the job file are"
    " appended to the sweep, even while it runs.",
    "With `--with-code new`, cells that did not succeed or have not started run with the code, `run` and `setup`"
    " as they are now. Succeeded cells stay, and `sweep results` tells the versions of the code apart.",
    "`sweep results SWEEP` contacts no box. It shows the metrics of every cell whose results are here and load, with"
    " the cell's parameters, the spread over seeds, which direction is better, and the effect of changing one"
    " variable. Metrics are the numbers in the pulled JSON, JSON Lines and CSV files.",
)
EXAMPLES = (
    ("sojourn sweep", "all cells of ./sojourn.yaml, on its site or candidates"),
    ("sojourn sweep --sites gpu1,gpu2 --dry-run", "only show which cell would go where"),
    ("sojourn sweep --slots 2", "two cells at a time on each box"),
    ("sojourn sweep --with-code new", "after fixing the code: run failed cells again with it"),
    ("sojourn sweep results ablation", "the results so far"),
    ("sojourn sweep results ablation --metric accuracy=max --plot", "one metric, and its plot in ablation.png"),
    ("sojourn sweep results ablation --csv > ablation.csv", "one row per cell, for other programs"),
)
EXITS = (
    (0, "every cell is queued; results: every cell is included"),
    (1, "results: some cells' results are not here, do not load, or lack the metric"),
    (2, "the job file is invalid, cells collide, or a box would be oversubscribed"),
    (3, "cannot reach a site"),
    (4, "refused: the lease is cleared for release, and its name was not given"),
    (5, "a site returned an error"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "Queued cells keep running; run the same `sojourn sweep` again to queue the rest."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        default="",
        metavar="FILE",
        help="the job file (default: ./sojourn.yaml), or the word results",
    )
    parser.add_argument("sweep", nargs="?", default="", metavar="SWEEP", help="after `results`: the sweep's name")
    parser.add_argument(
        "--sites", default="", metavar="A,B", help="place cells on these sites, overriding the job file"
    )
    parser.add_argument(
        "--slots",
        type=whole,
        default=0,
        metavar="N",
        help="cells at a time on each box (default: the last value used, or one per GPU)",
    )
    parser.add_argument("--oversubscribe", action="store_true", help="allow more cells at a time than GPUs or CPUs")
    parser.add_argument(
        "--env", action="append", default=[], type=pair, metavar="K=V", help="set an environment variable; repeatable"
    )
    add_scheduling(parser)
    parser.add_argument("--balance", action="store_true", help="also move waiting cells to boxes that finish sooner")
    parser.add_argument(
        "--with-code",
        choices=("same", "new"),
        default="same",
        metavar="same|new",
        help="new: run cells that did not succeed again, with the code as it is now",
    )
    parser.add_argument("--csv", action="store_true", help="results: one row per cell, for other programs")
    parser.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE",
        help="results: also write a plot (.png, .svg, .pdf; default: SWEEP.png)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        type=metric,
        metavar="M[=max]",
        help="results: only this metric, and whether max or min is better; repeatable",
    )
    parser.add_argument(
        "--seeds", default="", metavar="A,B", help="results: variables that only repeat a cell, such as seed"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show which cell would go where")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="start without asking; a cleared lease still needs --confirm"
    )
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    if args.file == "results":
        return _results(args, screen)
    if args.sweep or args.csv or args.plot is not None or args.metric or args.seeds:
        raise BadCommandLine(
            detail="SWEEP, --csv, --plot, --metric and --seeds belong to `sweep results`", help="sojourn sweep"
        )
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import sweep as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.sweep.request import SweepRequest
    from sojourn.verbs.sweep.sweep import sweep

    asked = SweepRequest(
        args.file,
        sites=[name for name in args.sites.split(",") if name],
        slots=args.slots,
        oversubscribe=args.oversubscribe,
        env=dict(args.env),
        balance=args.balance,
        new_code=args.with_code == "new",
        scheduling=dict(args.scheduling),
    )
    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm, doing="start on it anyway")) as ctx:
        answer = sweep(ctx, asked, dry_run=args.dry_run)
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _results(args: argparse.Namespace, screen: Screen) -> int:
    if not args.sweep:
        raise BadCommandLine(detail="results needs the name of a sweep", help="sojourn sweep")
    if args.csv and args.json:
        raise BadCommandLine(detail="give either --csv or --json, not both", help="sojourn sweep")
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

        screen.say(f"plot written to {picture.write(answer, args.plot or f'{answer.id}.png')}")
    return answer.exit_status
