"""`sojourn exec`."""

from __future__ import annotations

import argparse

from sojourn.cli.screen import Screen

SUMMARY = "run a command in the run's working copy and environment"
GROUP, PLACE = "While it runs", 310
ABOUT = (
    "The command runs on the run's box, beside the training: in the working copy of its newest attempt, with its"
    " environment variables and its setup. Input, output and exit status are passed through. On a cluster it runs on"
    " the job's node while the job runs there, and on the login node otherwise.",
)
COMMAND = "the command and its arguments"
EXAMPLES = (
    ("sojourn exec digits -- nvidia-smi", "the cards that it trains on"),
    ("sojourn exec digits -- ls -la out", "what it has written"),
)
EXITS = (
    (0, "the command's own exit status is passed on"),
    (2, "no such run, or it was never launched"),
    (3, "cannot reach the box"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it; returns the command's own exit status."""
    from sojourn.cli.parser import BadCommandLine

    if not args.command:
        raise BadCommandLine(detail="write the command behind --", help="sojourn exec")
    return within(args.run, args.command, screen, has_terminal=False)


def within(run: str, words: list[str], screen: Screen, *, has_terminal: bool) -> int:
    """A command, or a shell, with our own streams; returns its exit status."""
    import signal
    import subprocess

    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.enter import enter

    with Context.open(say=screen.progress) as ctx:
        _, argv = enter(ctx, run, words, has_terminal=has_terminal)
    screen.settle()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        rc = subprocess.Popen(argv, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)).wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return rc if rc >= 0 else 128 - rc
