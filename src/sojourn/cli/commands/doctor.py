"""`sojourn doctor`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import BadCommandLine, add_json
from sojourn.cli.screen import Screen

SUMMARY = "check a machine and list anything that would break a run"
GROUP, PLACE = "Before a run", 205
ABOUT = (
    "Checks Python, disk space and inodes, memory and CPU limits, GPUs, the launcher, and whether logging out kills"
    " background processes. Starts no run; copies sojourn's keeper program to the box if it is not there yet.",
    "With --code, checks Python files on this machine instead for known training bugs: worker seeding, checkpoints"
    " that omit part of the state, collective calls made by one rank only. The files are parsed, never executed.",
)
EXAMPLES = (
    ("sojourn doctor", "this machine"),
    ("sojourn doctor ssh:gpu-box", "a host from ~/.ssh/config"),
    ("sojourn doctor lab --json", "a site from your settings, as JSON"),
    ("sojourn doctor runpod", "check a cloud provider's API key"),
    ("sojourn doctor --code", "the project in this folder"),
)
EXITS = (
    (0, "no problems found"),
    (2, "no such site, or no Python file"),
    (3, "cannot reach the site"),
    (5, "the site returned an error or an invalid answer"),
    (10, "warnings"),
    (11, "a confirmed blocker: a run would fail there now"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, a site from your settings, or a provider (default: local)",
    )
    parser.add_argument(
        "--code",
        nargs="?",
        const=".",
        metavar="PATH",
        help="check a project's Python source, or one file (default: this folder)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
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
            detail=f"--code checks files on this machine; it takes no site ({args.site!r})", help="sojourn doctor"
        )
    answer = doctor_code(args.code)
    screen.answer(answer, show.code_lines, is_json=args.json)
    return answer.exit_status
