"""`sojourn resume`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, add_reopen
from sojourn.cli.screen import Screen

SUMMARY = "start the next attempt of a run that ended"
GROUP, PLACE = "Every day", 140
ABOUT = (
    "Uses the same code and arguments as before, which are on the box, so no job file is needed. Training continues"
    " from the newest checkpoint. After `stop`, only `resume` starts the run again.",
    "With `--with-code new`, this attempt and later ones run the code, `run` and `setup` of the job file as they are"
    " now. Nothing else in the job may change, except that `outputs`, `scratch` and `persist` may get more entries.",
)
EXAMPLES = (
    ("sojourn resume digits", "start its next attempt"),
    ("sojourn resume digits --with-code new", "after fixing the code; continues from the newest checkpoint"),
)
EXITS = (
    (0, "the run is alive, or has already succeeded"),
    (1, "its process ended at once with an error"),
    (2, "no such run"),
    (3, "cannot reach the site"),
    (4, "refused: the lease is cleared for release, and its name was not given"),
    (5, "the site returned an error"),
    (11, "a confirmed blocker: nothing was started"),
)
INTERRUPTED = "Anything launched keeps running; check `sojourn status`."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")
    parser.add_argument(
        "--with-code",
        choices=("same", "new"),
        default="same",
        metavar="same|new",
        help="same: the code that the run has (default); new: the code as it is now",
    )
    add_reopen(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import launch as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.resume import resume

    with Context.open(say=screen.progress, confirm=confirm(screen, args.confirm, doing="start on it anyway")) as ctx:
        answer = resume(ctx, args.run, new_code=args.with_code == "new")
    for remark in answer.remarks:
        screen.say(f"warning: {remark}")
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
