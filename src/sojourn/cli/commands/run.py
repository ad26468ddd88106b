"""`sojourn run`."""

from __future__ import annotations

import argparse

from sojourn.cli.commands import logs, plan
from sojourn.cli.parser import add_job, add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "push the code, launch it detached, and print the run's id"
GROUP, PLACE = "Every day", 115
COMMAND = "run this command without a job file, with the settings that `init` would propose"
ABOUT = (
    "Returns once the process is confirmed alive; you can then close the terminal. The same command again does"
    " nothing while the run is alive or after it succeeded, and starts the next attempt if it died.",
)
EXAMPLES = (
    ("sojourn run", "run ./sojourn.yaml"),
    ("sojourn run --name digits-lr3 --env LR=0.3", "a second run with another parameter"),
    ("sojourn run -- python train.py --lr 0.1", "without a job file, as `init` would set it up"),
    ("sojourn run --dry-run", "show what would happen (same as sojourn plan)"),
    ("sojourn run -f", "follow the log until the run ends"),
    ("sojourn run --site rent --wait -y", "rent the machine on which the run costs least, when there is one"),
    ("sojourn run --queue", "start when a GPU of the box is free, and return now"),
)
EXITS = (
    (0, "the run is alive or has succeeded (with -f: has succeeded)"),
    (1, "its process ended at once with an error (with -f: did not succeed)"),
    (2, "the job file is invalid, or the name belongs to a run with another specification"),
    (3, "cannot reach the site"),
    (4, "refused: nobody agreed to rent the machine, or the lease is cleared for release"),
    (5, "the site returned an error, or nothing can be rented within `max_price`"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "Anything launched keeps running; run the same `sojourn run` again to pick it up."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_job(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what it would do and cost, and stop")
    parser.add_argument("-f", "--follow", action="store_true", help="show the run's log until it ends")
    parser.add_argument(
        "-d", "--detach", action="store_true", help="return once the run is alive (the default without -f)"
    )
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="rent without asking, within max_price and budget; a cleared lease still needs --confirm",
    )
    parser.add_argument(
        "--wait", action="store_true", help="if nothing can be rented now, ask again every few minutes until it can"
    )
    parser.add_argument(
        "--queue",
        action="store_true",
        help="wait in the box's queue: one run per GPU at a time, or per box without GPUs (the default on a scheduler)",
    )
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    if args.dry_run:
        return plan.call(args, screen)
    from dataclasses import replace

    from sojourn.cli.ask import confirm
    from sojourn.cli.show import launch as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.run import run
    from sojourn.verbs.sweep.queue_run import queue_run

    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm, doing="start on it anyway")) as ctx:
        asked = replace(plan.request(args), yes=args.yes, waits=args.wait)
        answer = queue_run(ctx, asked) if args.queue else run(ctx, asked)
        for remark in answer.remarks:
            screen.say(f"warning: {remark}")
        screen.answer(answer, show.lines, is_json=args.json)
        if args.follow and answer.exit_status == 0:
            return logs.follow(ctx, answer.id, screen, args.json)
    return answer.exit_status
