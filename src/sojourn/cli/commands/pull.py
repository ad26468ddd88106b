"""`sojourn pull`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import BadCommandLine, add_json, duration, metric
from sojourn.cli.screen import Screen

SUMMARY = "fetch outputs and logs, and verify every file by loading it"
GROUP, PLACE = "Every day", 145
ABOUT = (
    "Takes a manifest on the box, fetches the files that are not here yet, compares every hash and loads every file."
    " For each output it fetches the newest version that loads, whichever attempt wrote it; for a run that has not"
    " succeeded, also the newest checkpoint. After an interruption, the same command continues where it stopped."
    " Pulling from a live run fetches what exists so far.",
    "RUN:PATH names a file that no output names, such as out/best.pt: it is fetched too, and counts as an output of the"
    " run from then on.",
    "With --follow it keeps running and fetches each checkpoint as soon as it is complete, with the metrics and logs,"
    " so that little is lost if the box vanishes; `sojourn status RUN` says how much. These copies do not count for a"
    " release: pull again after the run has ended.",
    "With --metrics it fetches only the logs and small metrics files of the runs named. With --best it fetches only the"
    " best cells of a sweep, ranked by the metric they last reported: the one in `early_stop`, or --metric.",
)
EXAMPLES = (
    ("sojourn pull", "every run with outputs that are not here yet"),
    ("sojourn pull digits --to results", "one run, into ./results"),
    ("sojourn pull digits:out/best.pt", "also a file that no output names"),
    ("sojourn pull ablation --metrics", "the numbers of every cell first"),
    ("sojourn pull ablation --best 3 --metric accuracy=max", "the three best cells, whole"),
    ("sojourn pull digits --follow --bwlimit 10M", "checkpoints while it trains, at most 10 MiB per second"),
)
EXITS = (
    (0, "every required output is here and loads"),
    (1, "a required output is missing or does not load"),
    (2, "no such run"),
    (3, "cannot reach a box"),
    (5, "a box returned an error"),
)
INTERRUPTED = "Received data is kept; run the same `sojourn pull` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="a run or sweep (any unique prefix of its name), or RUN:PATH"
    )
    parser.add_argument("--to", default="", metavar="DIR", help="destination folder; several runs get a subfolder each")
    parser.add_argument(
        "--follow", action="store_true", help="until the run ends, fetch each finished checkpoint, metrics and logs"
    )
    parser.add_argument(
        "--every", type=duration, default=30.0, metavar="TIME", help="with --follow: time between checks (default: 30s)"
    )
    parser.add_argument(
        "--keep", type=_count, default=2, metavar="N", help="with --follow: checkpoints to keep here (default: 2)"
    )
    parser.add_argument(
        "--bwlimit", type=_rate, default=0, metavar="RATE", help="fetch at most this much per second, such as 10M"
    )
    parser.add_argument(
        "--metrics", action="store_true", help="fetch only logs and small metrics files; writes no receipts"
    )
    parser.add_argument("--best", type=_count, default=0, metavar="K", help="fetch the K best cells of one sweep")
    parser.add_argument(
        "--metric", type=metric, default=("", ""), metavar="M[=max]", help="with --best: the metric to rank by"
    )
    add_json(parser)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"not a count: {text!r} (write 1 or more)")
    return int(text)


def _rate(text: str) -> int:
    from sojourn.wire.units import size_bytes

    try:
        rate = size_bytes(text.lower().removesuffix("/s"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if rate < 1024:
        raise argparse.ArgumentTypeError(f"not a rate: {text!r} (write at least 1k, in bytes per second)")
    return rate


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import pull as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.moving import Pace
    from sojourn.verbs.retrieve.best import Part
    from sojourn.verbs.retrieve.pull import going, pull

    part = Part(args.metrics, args.best, args.metric)
    if args.metric[0] and not args.best:
        raise BadCommandLine(detail="--metric ranks cells for --best: give both", help="sojourn pull")
    if args.follow and (args.metrics or args.best):
        raise BadCommandLine(
            detail="--follow brings one run, metrics first: leave out --metrics and --best", help="sojourn pull"
        )
    worst, some, pace = 0, False, Pace(args.bwlimit)
    with Context.open(say=screen.progress) as ctx:
        if args.follow:
            from sojourn.verbs.retrieve.follow import follow

            for brought in follow(ctx, args.runs, to=args.to, every_s=args.every, keep=args.keep, pace=pace):
                if args.json:
                    screen.show_json(brought.as_json(), stream=True)
                else:
                    screen.show(show.followed(brought, screen.columns))
            return 0
        for answer in pull(ctx, args.runs, to=args.to, pace=pace, part=part):
            worst = max(worst, answer.exit_status)
            if args.json:
                screen.show_json(answer.as_json(), stream=len(args.runs) != 1)
            else:
                screen.show([*([""] if some else []), *show.lines(answer, screen.columns)])
            some = True
        if not some and not args.json:
            screen.show(show.nothing(going(ctx), screen.columns))
    return worst
