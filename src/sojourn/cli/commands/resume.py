"""`sojourn resume`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "the next attempt of a run that ended, with the same arguments"
GROUP, PLACE = "Run and monitor", 280
ABOUT = (
    "Needs no job file: the box has the run's code and specification. The training goes on from its newest checkpoint."
    " After `stop` this is the only way on.",
)
EXAMPLES = (("sojourn resume digits", "start its next attempt"),)
EXITS = (
    (0, "the run lives, or has succeeded and needs nothing"),
    (1, "its process ended at once with an error"),
    (2, "no such run"),
    (3, "the site cannot be reached"),
    (4, "refused: the lease was cleared to be stopped, and its name was not given"),
    (5, "the site answered with an error"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "What was launched goes on; see sojourn status."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run, or a unique beginning of its name")
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import launch as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.resume import resume

    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm)) as ctx:
        answer = resume(ctx, args.run)
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
