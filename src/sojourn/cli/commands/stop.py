"""`sojourn stop`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sojourn.cli.parser import add_confirm, add_json, duration
from sojourn.cli.screen import Screen

if TYPE_CHECKING:
    from sojourn.verbs.context import Context

SUMMARY = "stop a run's process, giving it time to save"
GROUP, PLACE = "Every day", 135
ABOUT = (
    "Sends SIGTERM, then SIGKILL when the grace period is over; a Checkpointer saves in between. All files stay"
    " where they are. To continue the run later, use `sojourn resume`. The lease and its meter keep running. To"
    " confirm, type the run's name.",
)
EXAMPLES = (
    ("sojourn stop digits", "ask, then wait until it has ended"),
    ("sojourn stop digits --confirm digits --grace 2m", "in a script, with two minutes to save"),
)
EXITS = (
    (0, "ended, or was not alive"),
    (1, "still alive when the wait was over"),
    (2, "no such run"),
    (3, "cannot reach the site; the run's state is unknown"),
    (4, "not confirmed"),
)
INTERRUPTED = "The stop request stands, and the box carries it out by itself. Check `sojourn status`."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run or sweep (any unique prefix of its name)")
    parser.add_argument(
        "--grace", type=duration, metavar="TIME", help="time to save before it is killed (default: 30s)"
    )
    add_confirm(parser, "RUN")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import stop as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.stop import stop

    with Context.open(say=screen.progress) as ctx:
        if sweep := ctx.store.index.sweep(args.run):
            return _of_sweep(ctx, sweep, args, screen)
        answer = stop(ctx, args.run, confirm=confirm(screen, args.confirm), grace_s=args.grace)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _of_sweep(ctx: Context, sweep: str, args: argparse.Namespace, screen: Screen) -> int:
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import stop_sweep as show
    from sojourn.verbs.sweep.stop_sweep import stop_sweep

    answer = stop_sweep(ctx, sweep, confirm=confirm(screen, args.confirm), grace_s=args.grace)
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
