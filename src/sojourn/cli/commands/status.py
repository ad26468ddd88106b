"""`sojourn status`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen
from sojourn.wire.units import unstamp

if TYPE_CHECKING:
    from sojourn.verbs.answers import Row, StatusReport

SUMMARY = "check every run once: state, progress, results, cost"
GROUP, PLACE = "Every day", 120
ABOUT = (
    "Asks each box once, with a timeout. A run whose box cannot be reached is shown in its last known state and"
    " marked. Without RUN, shows every unfinished run and the most recent finished ones.",
)
EXAMPLES = (
    ("sojourn status", "one line per run"),
    ("sojourn status digits", "everything known about one run"),
    ("sojourn status ablation", "a sweep: cells by state and site, time left, cost"),
    ("sojourn status --since 2d --json", "runs whose state changed in the last two days, as JSON"),
    ("sojourn status --state failed --state lost", "what needs a look"),
    ("sojourn status digits --exit-status", "for scripts: the result as an exit status"),
)
EXITS = (
    (0, "answered; with --exit-status: every run succeeded and its results are here and verified"),
    (2, "no such run"),
    (3, "cannot reach any box"),
    (5, "a box returned an error or an invalid answer; the others are shown"),
    (100, "with --exit-status: a run failed, was killed, ran out of memory or was lost"),
    (101, "with --exit-status: not finished"),
    (102, "with --exit-status: no such run"),
    (103, "with --exit-status: cancelled"),
    (110, "with --exit-status: succeeded, but results are not all here and verified"),
    (111, "with --exit-status: cannot reach the box"),
    (112, "with --exit-status: stalled"),
    (113, "with --exit-status: stopped by budget, time limit or danger clock"),
)
FINAL_SHOWN = 20  # finished runs listed without --all


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run or sweep (any unique prefix of its name)")
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE", type=state, help="only runs in this state; repeatable"
    )
    parser.add_argument("--site", action="append", default=[], metavar="S", help="only runs on this site; repeatable")
    parser.add_argument("--sweep", action="append", default=[], metavar="N", help="only runs of this sweep; repeatable")
    parser.add_argument("--since", type=duration, metavar="TIME", help="only runs whose state changed within this time")
    parser.add_argument(
        "-a", "--all", action="store_true", help=f"list every finished run, not only the newest {FINAL_SHOWN}"
    )
    parser.add_argument(
        "--exit-status", action="store_true", help="report the result as an exit status; the worst of several runs"
    )
    parser.add_argument(
        "--timeout", type=duration, default=20.0, metavar="TIME", help="how long to wait for a box (default: 20s)"
    )
    add_json(parser)


def state(text: str) -> str:
    """argparse type: a state of a run."""
    from sojourn.core.values import State

    valid = [one.value for one in State]
    if text not in valid:
        raise argparse.ArgumentTypeError(f"{text!r} is no state: {', '.join(valid)}")
    return text


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    import gc

    gc.disable()  # one short run: searching ten thousand rows for cycles takes a fifth of its time
    try:
        return _call(args, screen)
    finally:
        gc.enable()


def _call(args: argparse.Namespace, screen: Screen) -> int:
    from dataclasses import replace

    from sojourn.cli.show import status as show
    from sojourn.cli.show import tally
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.status import status
    from sojourn.wire.errors import Misuse

    selects = args.runs or args.exit_status or _filters(args)
    if args.json and not selects and not screen.out_is_terminal:
        return _all_as_json(args, screen)
    shows_all = args.json or args.all or selects
    with Context.open(say=screen.progress) as ctx:
        sweep = ctx.store.index.sweep(args.runs[0]) if len(args.runs) == 1 else ""
        try:
            answer = status(ctx, args.runs, timeout_s=args.timeout, finals=None if shows_all else FINAL_SHOWN)
        except Misuse as unknown:
            if args.exit_status and unknown.code == "not-found":
                unknown.exit_status = 102  # type: ignore[misc]  # this table wins here, see docs/json.md
            raise
    now_s = unstamp(answer.at)
    had = bool(answer.rows or answer.hidden)
    answer = replace(answer, rows=tuple(row for row in answer.rows if _is_wanted(row, args, now_s)))
    if args.json:
        screen.show_json(answer.as_json())
    elif sweep and answer.sweeps:
        screen.show(tally.lines(answer, screen.columns))
    elif len(args.runs) == 1 and len(answer.rows) == 1:
        screen.show(show.one(answer.rows[0], now_s, screen.columns))
    else:
        most = None if shows_all else FINAL_SHOWN
        screen.show(show.lines(answer, screen.table_columns, finals=most, sought=_sought(args) if had else ""))
    if args.exit_status:
        return answer.exit_status
    return _reached(answer)


def _filters(args: argparse.Namespace) -> bool:
    """Whether only some of the runs are requested."""
    return args.since is not None or bool(args.state or args.site or args.sweep)


def _sought(args: argparse.Namespace) -> str:
    """ "is running on box1", as a person reads the filters."""
    parts = [f"is {' or '.join(args.state)}"] if args.state else []
    parts += [f"is on {' or '.join(args.site)}"] if args.site else []
    parts += [f"is of the sweep {' or '.join(args.sweep)}"] if args.sweep else []
    parts += ["changed its state within that time"] if args.since is not None else []
    return " and ".join(parts)


def _is_wanted(row: Row, args: argparse.Namespace, now_s: float) -> bool:
    if args.since is not None and not (row.since and now_s - unstamp(row.since) <= args.since):
        return False
    return all(
        not wanted or having in wanted
        for wanted, having in ((args.state, row.state.value), (args.site, row.site), (args.sweep, row.sweep))
    )


def _all_as_json(args: argparse.Namespace, screen: Screen) -> int:
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.status_rows import status_rows

    with Context.open(say=screen.progress) as ctx:
        answer = status_rows(ctx, timeout_s=args.timeout)
    screen.show([answer.json_text()])
    return _reached(answer.anew)


def _reached(answer: StatusReport) -> int:
    """5 if a box answered with an error or an invalid answer; 3 if none could be reached."""
    if any(row.reach.is_sick for row in answer.rows):
        return 5
    asked = [row.reach.ok for row in answer.rows if row.reach.ok is not None]
    return 3 if asked and not any(asked) else 0
