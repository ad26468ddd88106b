"""`sojourn doctor`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "what a machine has, and what speaks against running there"
ABOUT = (
    "Asks the machine itself: Python, disk and inodes, memory and CPU limits, GPUs, the launcher, whether a logout"
    " kills what was started. No run is started; sojourn's keeper program is put there where it is not yet.",
)
EXAMPLES = (
    ("sojourn doctor", "this machine"),
    ("sojourn doctor ssh:gpu-box", "a machine of ~/.ssh/config"),
    ("sojourn doctor lab --json", "a site of the settings, for a script"),
)
EXITS = (
    (0, "nothing speaks against a run there"),
    (2, "there is no such site"),
    (3, "it cannot be reached"),
    (10, "warnings"),
    (11, "a confirmed blocker: no run would work there now"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, or a name of the settings (default: local)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import doctor as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.doctor import doctor

    with Context.open(say=screen.progress) as ctx:
        answer = doctor(ctx, args.site)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
