"""`sojourn watch`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sojourn.cli.parser import add_confirm, add_json, duration
from sojourn.cli.screen import Screen

if TYPE_CHECKING:
    from sojourn.verbs.answers import Snapshot
    from sojourn.verbs.context import Context
    from sojourn.verbs.release.afterwards import Then

SUMMARY = "follow runs in a live table until they finish"
GROUP, PLACE = "While it runs", 305
ABOUT = (
    "On a terminal, one table that updates in place. In a pipe or a log file, one line per change, and an occasional"
    " line when nothing is new. Sends notifications (see `sojourn notify`). Ending the command does not end any run.",
    "With --then pull,down --confirm LEASE, results are brought home when all runs of that lease have ended, and it"
    " is released. You confirm beforehand, for this lease alone and only if all is clean: every run succeeded, every"
    " file loads here, and no run has joined since. Otherwise nothing is released, and the meter keeps running. It"
    " works only while this command runs.",
)
EXAMPLES = (
    ("sojourn watch", "every unfinished run"),
    ("sojourn watch digits --limit 1h", "one run, for at most an hour"),
    ("sojourn watch --json", "one JSON object per check"),
    ("sojourn watch digits --then pull,down --confirm gpu1", "then bring results home and release gpu1"),
)
EXITS = (
    (0, "every run succeeded, and its results are here and verified"),
    (4, "with --then: not released, because something is not clean or the name was not given"),
    (5, "a box returned an error or an invalid answer"),
    (100, "a run failed, was killed, ran out of memory or was lost"),
    (101, "not finished when the limit was reached"),
    (102, "no such run"),
    (103, "cancelled"),
    (110, "succeeded, but results are not all here and verified"),
    (111, "cannot reach the box"),
    (112, "stalled"),
    (113, "stopped by budget, time limit or danger clock"),
)
INTERRUPTED = "The runs continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep (any unique prefix of its name)")
    parser.add_argument(
        "--every",
        type=duration,
        default=2.0,
        metavar="TIME",
        help="first check interval (default: 2s); grows while nothing changes",
    )
    parser.add_argument(
        "--limit",
        type=duration,
        default=None,
        metavar="TIME",
        help="stop watching after this long (default: when all runs have finished)",
    )
    parser.add_argument(
        "--then",
        default="",
        metavar="STEPS",
        help="when all have ended: pull, or pull,down (needs --confirm)",
    )
    add_confirm(parser, "LEASE")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli import live
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.watch import watch

    with Context.open(say=screen.progress) as ctx:
        then = _agreed(ctx, args, screen)
        names = args.runs if then is None else list(then.runs)
        looks = watch(ctx, names, every_s=args.every, limit_s=args.limit)
        if args.json:
            last = None
            for last in looks:
                screen.show_json(last.as_json(), stream=True)
        elif screen.can_redraw:
            last = live.table(looks, screen)
        else:
            last = live.lines(looks, screen)
        if then is not None:
            return _finish(ctx, args, screen, then, last)
    return last.status.exit_status if last else 0


def _agreed(ctx: Context, args: argparse.Namespace, screen: Screen) -> Then | None:
    from sojourn.verbs.release.afterwards import NotThen, agree

    if not args.then:
        if args.confirm:
            raise NotThen(text="")
        return None
    then = agree(ctx, args.runs, args.then, args.confirm)
    if then.releases is not None:
        screen.say_line(f"{then.lease} is released when all is home, as long as this command runs")
    return then


def _finish(ctx: Context, args: argparse.Namespace, screen: Screen, then: Then, last: Snapshot | None) -> int:
    """What follows the watch; without a release its exit status says what is home."""
    from sojourn.cli.show import down, pull
    from sojourn.verbs.answers import Down
    from sojourn.verbs.observe.status import status
    from sojourn.verbs.release.afterwards import finish

    has_ended = last is not None and all(row.state.is_final for row in last.status.rows)
    for answer in finish(ctx, then, has_ended):
        if args.json:
            screen.show_json(answer.as_json(), stream=True)
        elif isinstance(answer, Down):
            screen.show(down.lines(answer, screen.columns), stream=True)
        else:
            screen.show(pull.lines(answer, screen.columns), stream=True)
        if isinstance(answer, Down):
            return answer.exit_status
    return status(ctx, then.runs).exit_status if then.runs else 0
