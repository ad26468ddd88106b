"""`sojourn notify`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "whether messages reach you: `notify test`"
GROUP, PLACE = "Run and monitor", 290
ABOUT = (
    "`watch` tells your channels of alarms (stalled, ended too fast, done but billing, idle), of failures and of the"
    " end. A channel is a URL of apprise (ntfy, mail, chats, ...), or env:NAME, where the variable NAME of this machine"
    ' holds it: `notify = ["env:NTFY_URL"]` in settings, or `notify` in a job file. URLs are never shown.',
)
EXAMPLES = (
    ("sojourn notify test", "a message to each channel of the settings"),
    ("sojourn notify test digits", "and to those of a run or sweep"),
)
EXITS = (
    (0, "every channel took the message"),
    (1, "a channel did not take it"),
    (2, "there is no channel, or apprise is not installed"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("test",), metavar="test", help="what to do")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="also the channels of these runs or sweeps")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import notify as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.notices import notify_test

    with Context.open(say=screen.progress) as ctx:
        answer = notify_test(ctx, args.runs)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
