"""`sojourn notify`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "send a test message to your notification channels"
GROUP, PLACE = "While it runs", 325
ABOUT = (
    "`watch` notifies your channels about alarms (stalled, ended too soon, finished but still billing, idle),"
    " failures and completion. A channel is an apprise URL (ntfy, mail, chat services, ...), or env:NAME to read the"
    ' URL from the environment variable NAME on this machine. Set channels with `notify = ["env:NTFY_URL"]` in your'
    " settings or `notify` in a job file. URLs are never displayed.",
)
EXAMPLES = (
    ("sojourn notify test", "every channel in your settings"),
    ("sojourn notify test digits", "also the channels of a run or sweep"),
)
EXITS = (
    (0, "every channel accepted the message"),
    (1, "a channel did not accept it"),
    (2, "no channels, or apprise is not installed"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("test",), metavar="test", help="what to do")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="also test the channels of these runs or sweeps")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import notify as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.notices import notify_test

    with Context.open(say=screen.progress) as ctx:
        answer = notify_test(ctx, args.runs)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
