"""`sojourn why`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "what happened to a run, with evidence and the fix"
GROUP, PLACE = "Run and monitor", 260
ABOUT = (
    "Judges a run by what its box says, in one connection and alive or ended; or a log, or an evidence file. The"
    " catalog of known causes decides: the earliest cause stands first, what follows"
    " from it below; what was ruled out and by what is in --json. What is not known is said to be unknown, with the"
    " probe that would settle it.",
)
EXAMPLES = (
    ("sojourn why digits", "a run: asks its box for everything that can be known"),
    ("sojourn why digits --save digits.json", "and keeps the evidence, for --evidence or somebody else"),
    ("sojourn why --log train.log", "a log, all of it, whoever wrote it"),
    ("sojourn why --evidence bundle.json", "what was recorded on a machine"),
    ("sojourn why --log train.log --json", "with everything that was weighed"),
)
EXITS = (
    (0, "nothing is wrong"),
    (1, "a cause was found"),
    (2, "no such run or file, or not an evidence file"),
    (5, "the box answered with an error"),
    (10, "undetermined; also where the box does not answer, from which nothing is concluded"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="a run, or a unique beginning of its name")
    parser.add_argument(
        "--attempt", type=whole, default=0, metavar="N", help="of RUN this attempt (default: the newest)"
    )
    parser.add_argument("--save", default="", metavar="FILE", help="write the evidence of RUN to this file")
    parser.add_argument("--log", default="", metavar="FILE", help="judge this log")
    parser.add_argument("--evidence", default="", metavar="FILE", help="judge this evidence file (JSON)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import why as show
    from sojourn.verbs.explain import why

    if sum(map(bool, (args.run, args.log, args.evidence))) != 1:
        raise Misuse(detail="give one of RUN, --log FILE and --evidence FILE")
    if (args.attempt or args.save) and not args.run:
        raise Misuse(detail="--attempt and --save go with RUN")
    if args.run:
        from sojourn.verbs.context import Context

        with Context.open(say=screen.progress) as ctx:
            answer = why.of_run(ctx, args.run, attempt=args.attempt, save=args.save)
    else:
        answer = why.of_log(args.log, say=screen.progress) if args.log else why.of_evidence(args.evidence)
    if args.json:
        screen.show_json(answer.as_json())
    else:
        screen.show(show.lines(answer, screen.columns))
    return answer.exit_status
