"""`sojourn reap`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_confirm, add_json
from sojourn.cli.screen import Screen

SUMMARY = "end leftover processes that hold a GPU"
GROUP, PLACE = "For experts", 730
ABOUT = (
    "Lists the processes that hold a machine's GPUs, and any left over from sojourn runs, with the proof that"
    " nothing needs them: the run has ended by its own records, or the parent process is gone. A process that is"
    " merely idle or hidden from nvidia-smi is listed but never ended; nor is another user's process.",
    "To confirm, type PID@START (process number and start time) for one process, or the site's name for several; -y"
    " does not answer this question. The machine checks each process again just before ending it.",
)
EXAMPLES = (
    ("sojourn reap", "list them, and ask before ending any"),
    ("sojourn reap ssh:gpu1 4242@991237 --confirm 4242@991237", "in a script: exactly that process"),
    ("sojourn reap ssh:gpu1 --confirm ssh:gpu1", "in a script: every proven orphan"),
)
EXITS = (
    (0, "no orphans, or all were ended"),
    (1, "a process could not be ended"),
    (2, "no such site or orphan"),
    (3, "cannot reach the machine"),
    (4, "orphans found, but the name was not given: nothing was ended"),
    (5, "the machine was restarted meanwhile"),
)
INTERRUPTED = "Run the same `sojourn reap` again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, or a site from your settings (default: local)",
    )
    parser.add_argument("holders", nargs="*", metavar="PID@START", help="end only these")
    add_confirm(parser, "NAME")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.ask import confirm
    from sojourn.cli.show import reap as show
    from sojourn.verbs.confirm import NotConfirmed
    from sojourn.verbs.context import Context
    from sojourn.verbs.explain import reap

    with Context.open(say=screen.progress) as ctx:
        found = reap.look(ctx, args.site)
        try:
            answer = reap.end(
                ctx, found, args.holders, confirm=confirm(screen, args.confirm, doing="end what is listed above")
            )
        except NotConfirmed:
            screen.answer(found, show.lines, is_json=args.json)  # what could be ended, if nobody could be asked
            raise
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
