"""`sojourn completion`."""

from __future__ import annotations

import argparse

from sojourn.cli.screen import Screen

SUMMARY = "print a completion script for your shell"
GROUP, PLACE = "Shell", 805
ABOUT = ("Prints a script for bash, zsh or fish, generated from the installed version's own commands and options.",)
EXAMPLES = (
    ('eval "$(sojourn completion bash)"', "in ~/.bashrc"),
    ("sojourn completion zsh > ~/.zfunc/_sojourn", "a folder on your fpath"),
    ("sojourn completion fish | source", "in ~/.config/fish/config.fish"),
)
EXITS = (
    (0, "printed"),
    (2, "unsupported shell"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh or fish")


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.completion import script
    from sojourn.cli.parser import build

    screen.show(script(build(), args.shell).splitlines())
    return 0
