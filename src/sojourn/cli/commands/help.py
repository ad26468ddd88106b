"""`sojourn help`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "read a page of the documentation, or the help of a command"
GROUP, PLACE = "Documentation", 810
ABOUT = (
    "Without TOPIC it lists the topics. A page named by a message, such as docs/job-file.md, can be given as it is."
    " If a command has the name too, its help is shown, and NAME.md is the page.",
)
EXAMPLES = (
    ("sojourn help", "the topics"),
    ("sojourn help sweeps", "a page"),
    ("sojourn help run", "a command, as `sojourn run --help`"),
    ("sojourn help sweeps | less", "any pager; on a terminal PAGER, or less, is used anyway"),
)
EXITS = (
    (0, "shown"),
    (2, "no such page or command; the nearest are named"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("topic", nargs="?", default="", metavar="TOPIC", help="a page or a command")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Show it; returns the exit status."""
    from sojourn.cli import parser
    from sojourn.cli.show import pages as show
    from sojourn.verbs.explain import pages

    if args.topic in parser.names():
        more = ["", f"page     sojourn help {args.topic}.md"] if pages.is_page(args.topic) else []
        screen.show([*parser.page(args.topic), *more])
    elif not args.topic:
        screen.answer(pages.topics(), show.topics, is_json=args.json)
    else:
        if args.topic in parser.MEANT and not pages.is_page(args.topic):
            parser.load(args.topic)  # names the likely command
        found = pages.page(args.topic, parser.names())
        if args.json:
            screen.show_json(found.as_json())
        else:
            screen.show_page(show.lines(found, screen.columns, is_terminal=screen.out_is_terminal))
    return 0
