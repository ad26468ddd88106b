"""`sojourn offers`."""

from __future__ import annotations

import argparse

from sojourn.cli.machine import add_machine, need_of
from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "list machines you could rent, ranked by what the run would cost"
GROUP, PLACE = "Machines and money", 503
ABOUT = (
    "Asks every provider that has an API key here, all at once, and rents nothing. The cost of the run counts the"
    " hourly price, the disk, traffic out, the minimum charge, and the time expected to be lost to interruptions.",
    "What you do not give is taken from the job file: `resources`, `max_duration` and `max_price`.",
)
EXAMPLES = (
    ("sojourn offers --gpus A100:1", "one A100, at every provider"),
    ("sojourn offers --gpus A100:1 --gpus H100:1 --hours 12h", "either of two, for a run of 12 hours"),
    ("sojourn offers --provider vastai --spot", "machines to bid for, at one provider"),
    ("sojourn offers job.yaml --json", "for a job, as JSON"),
)
EXITS = (
    (0, "listed; a provider that did not answer is named"),
    (2, "no API key, an unknown GPU or provider, or an invalid job file"),
    (3, "no provider could be reached"),
    (5, "nothing fits, or nothing within `max_price`, or every provider returned an error"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the job file (default: ./sojourn.yaml)")
    add_machine(parser)
    parser.add_argument(
        "--hours", type=duration, default=None, metavar="D", help="how long the run takes: 12h, 90m (default: the job's"
        " max_duration, else 1h)"
    )  # fmt: skip
    parser.add_argument("--out", type=float, default=0.0, metavar="GIB", help="GiB of results to bring home")
    parser.add_argument(
        "--mtbf",
        type=duration,
        default=None,
        metavar="D",
        help="how long a spot machine lasts on average (default: 8h)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import offers as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.rent.offers import offers

    with Context.open(say=screen.progress) as ctx:
        answer = offers(
            ctx,
            args.file,
            need=need_of(args),
            provider=args.provider,
            is_spot=args.spot,
            run_s=args.hours,
            out_gib=args.out,
            mtbf_s=args.mtbf,
            max_price=args.max_price,
        )
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
