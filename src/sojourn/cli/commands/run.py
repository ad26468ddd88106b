"""`sojourn run`."""

from __future__ import annotations

import argparse

from sojourn.cli.commands import logs, plan
from sojourn.cli.parser import add_job, add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "push, launch detached, and come back with the run's id"
GROUP, PLACE = "Run and monitor", 210
ABOUT = (
    "Comes back when the process is proven alive; it needs this terminal no longer. The identical command again does"
    " nothing while the run lives or has succeeded, and starts the next attempt when it is dead.",
)
EXAMPLES = (
    ("sojourn run", "run ./sojourn.yaml"),
    ("sojourn run --name digits-lr3 --env LR=0.3", "a second run, with another parameter"),
    ("sojourn run --dry-run", "only say what would be done (the same as sojourn plan)"),
    ("sojourn run -f", "stay with its log until it ends"),
)
EXITS = (
    (0, "the run lives or has succeeded (with -f: has succeeded)"),
    (1, "its process ended at once with an error (with -f: it did not succeed)"),
    (2, "the job file is wrong, or the name is taken by a run with another specification"),
    (3, "the site cannot be reached"),
    (4, "refused: the lease was cleared to be stopped, and its name was not given"),
    (5, "the site answered with an error"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "What was launched goes on; the identical `sojourn run` finds it again."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_job(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    parser.add_argument("-f", "--follow", action="store_true", help="show the run's log until it ends")
    parser.add_argument("-d", "--detach", action="store_true", help="come back at once (it always does, without -f)")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask before starting (it asks nothing on a free site)"
    )
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    if args.dry_run:
        return plan.call(args, screen)
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import launch as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.run import run

    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm)) as ctx:
        answer = run(ctx, args.file, site=args.site, name=args.name, env=dict(args.env))
        for remark in answer.remarks:
            screen.say(f"warning: {remark}")
        screen.answer(answer, show.lines, is_json=args.json)
        if args.follow and answer.exit_status == 0:
            return logs.follow(ctx, answer.id, screen, args.json)
    return answer.exit_status
