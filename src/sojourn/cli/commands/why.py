"""`sojourn why`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "explain what happened to a run, with evidence and a fix"
GROUP, PLACE = "Every day", 130
ABOUT = (
    "Examines a run, alive or ended, over one connection to its box; or a log; or an evidence file. Matches it"
    " against the catalog of known causes and prints the earliest cause first, then its consequences, then causes"
    " excluded by the evidence. Where evidence is missing, names the probe that would settle the question.",
)
EXAMPLES = (
    ("sojourn why digits", "a run: collects everything its box can tell"),
    ("sojourn why digits --save digits.json", "also saves the evidence, for --evidence or a colleague"),
    ("sojourn why --log train.log", "any log, from any program"),
    ("sojourn why --evidence bundle.json", "evidence recorded on a machine"),
    ("sojourn why --log train.log --json", "with every cause that was considered"),
)
EXITS = (
    (0, "nothing is wrong"),
    (1, "a cause was found"),
    (2, "no such run or file, or not an evidence file"),
    (5, "the box returned an error"),
    (10, "undetermined, or the box does not answer"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="a run (any unique prefix of its name)")
    parser.add_argument(
        "--attempt", type=whole, default=0, metavar="N", help="with RUN: examine this attempt (default: the newest)"
    )
    parser.add_argument("--save", default="", metavar="FILE", help="with RUN: write the evidence to this file")
    parser.add_argument("--log", default="", metavar="FILE", help="examine this log")
    parser.add_argument("--evidence", default="", metavar="FILE", help="examine this evidence file (JSON)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import why as show
    from sojourn.verbs.explain import why

    if sum(map(bool, (args.run, args.log, args.evidence))) != 1:
        raise Misuse(detail="give exactly one of RUN, --log FILE or --evidence FILE")
    if (args.attempt or args.save) and not args.run:
        raise Misuse(detail="--attempt and --save need a RUN")
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
