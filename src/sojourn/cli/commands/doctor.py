"""`sojourn doctor`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import BadCommandLine, add_json
from sojourn.cli.screen import Screen

SUMMARY = "what a machine has, and what speaks against running there"
GROUP, PLACE = "Prepare", 120
ABOUT = (
    "Asks the machine itself: Python, disk and inodes, memory and CPU limits, GPUs, the launcher, whether a logout"
    " kills what was started. No run is started; sojourn's keeper program is put there where it is not yet.",
    "With --code it reads Python files here instead and says which known traps of training they show: seeds of workers,"
    " checkpoints that lack half of the state, calls that one rank makes alone. They are parsed, never run.",
)
EXAMPLES = (
    ("sojourn doctor", "this machine"),
    ("sojourn doctor ssh:gpu-box", "a machine of ~/.ssh/config"),
    ("sojourn doctor lab --json", "a site of the settings, for a script"),
    ("sojourn doctor --code", "the project in this folder"),
)
EXITS = (
    (0, "nothing speaks against a run there"),
    (2, "there is no such site, or no Python file"),
    (3, "it cannot be reached"),
    (5, "it answers with an error, or with what cannot be right"),
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
    parser.add_argument(
        "--code",
        nargs="?",
        const=".",
        metavar="PATH",
        help="judge a project's Python source, or one file (default: this folder)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import doctor as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.explain.doctor import doctor

    if args.code is not None:
        return _code(args, screen)
    with Context.open(say=screen.progress) as ctx:
        answer = doctor(ctx, args.site)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _code(args: argparse.Namespace, screen: Screen) -> int:
    from sojourn.cli.show import doctor as show
    from sojourn.verbs.project.doctor_code import doctor_code

    if args.site:
        raise BadCommandLine(
            detail=f"--code reads files of this machine; {args.site!r} is a site", help="sojourn doctor"
        )
    answer = doctor_code(args.code)
    screen.answer(answer, show.code_lines, is_json=args.json)
    return answer.exit_status
