"""`sojourn plan`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sojourn.cli.parser import add_job, add_json
from sojourn.cli.screen import Screen
from sojourn.wire.quote import join

if TYPE_CHECKING:
    from sojourn.verbs.answers import Plan
    from sojourn.verbs.launch.request import RunRequest

SUMMARY = "show what `run` would do and cost, without changing anything"
GROUP, PLACE = "Every day", 110
COMMAND = "the command to run, without a job file: init's proposals apply"
ABOUT = (
    "Checks the site once and reports whether the run is new, running or finished; what would be copied and whether"
    " it fits; whether the run's folder survives stopping the machine; and the cost per hour and in total.",
)
EXAMPLES = (
    ("sojourn plan", "for ./sojourn.yaml"),
    ("sojourn plan job.yaml --site local", "for another job file, on this machine"),
)
EXITS = (
    (0, "`run` would start it, or there is nothing to do"),
    (2, "the job file is invalid, or the name belongs to a run with another specification"),
    (3, "cannot reach the site; only what is known on this machine is shown"),
    (10, "`run` would start it, with warnings"),
    (11, "a confirmed blocker: `run` would not start it"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_job(parser)
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from dataclasses import replace

    from sojourn.cli.show import plan as show
    from sojourn.wire.errors import Misuse

    try:
        answer = _planned(args, screen)
    except Misuse as error:
        if not error.fields.get("has_sweep"):
            raise
        return _sweep(args, screen)
    if answer.next == "sojourn run":
        answer = replace(answer, next=join([*answer.next.split(), *_given(args)]))
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _sweep(args: argparse.Namespace, screen: Screen) -> int:
    """What `sweep` would do with a job file that contains one: where each cell goes."""
    from sojourn.cli import parser
    from sojourn.store.job.scalars import option_words

    words = [*([args.file] if args.file else []), *(["--sites", args.site] if args.site else [])]
    words += [word for key, value in args.env for word in ("--env", f"{key}={value}")]
    words += option_words(dict(args.scheduling))
    spec = parser.load("sweep")
    return int(spec.call(parser.parse("sweep", [*words, "--dry-run", *["--json"] * args.json]), screen))


def _planned(args: argparse.Namespace, screen: Screen) -> Plan:
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.plan import plan

    with Context.open(say=screen.progress) as ctx:
        return plan(ctx, request(args))


def request(args: argparse.Namespace) -> RunRequest:
    """What `plan` and `run` are asked for on the command line, in the options that both have."""
    from sojourn.verbs.launch.request import RunRequest

    return RunRequest(
        args.file,
        command=args.command,
        site=args.site,
        name=args.name,
        env=dict(args.env),
        another=args.new_machine,
        new=args.new,
        scheduling=dict(args.scheduling),
    )


def _given(args: argparse.Namespace) -> list[str]:
    """The job's arguments as given, for the `run` that carries out the plan."""
    from sojourn.store.job.scalars import option_words

    named = [word for flag in ("site", "name") if getattr(args, flag) for word in (f"--{flag}", getattr(args, flag))]
    return [
        *([args.file] if args.file else []),
        *named,
        *["--new-machine"] * args.new_machine,
        *["--new"] * args.new,
        *[w for k, v in args.env for w in ("--env", f"{k}={v}")],
        *option_words(dict(args.scheduling)),
        *(["--", *args.command] if args.command else []),
    ]
