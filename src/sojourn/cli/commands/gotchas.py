"""`sojourn gotchas`."""

from __future__ import annotations

import argparse
import sys

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "known ways to lose work or money: list, show, search"
GROUP, PLACE = "Knowledge base", 610
ABOUT = (
    "`list` names every entry, `show ID` tells one (an id, a number of the seed documents, or a unique beginning)."
    " `search` takes what you would type or paste: words in English or Chinese, an error, a traceback, a whole log"
    " (with - from stdin); it says what made it find each. Nothing leaves this machine.",
)
EXAMPLES = (
    ('sojourn gotchas search "df shows free space but no space left on device"', "in your own words"),
    ('sojourn gotchas search "断开 ssh 训练就停了"', "in Chinese, or mixed"),
    ("sojourn gotchas search - < train.log", "what a log speaks of"),
    ("sojourn gotchas show U7", "one entry, all of it"),
    ("sojourn gotchas list --theme storage", "the entries of a theme"),
)
EXITS = (
    (0, "told"),
    (1, "nothing was found"),
    (2, "no entry is called so; the nearest name is told"),
)
MAX_STDIN = 16 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("list", "show", "search"), metavar="list|show|search", help="what to do")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="show: the ID; search: the words, or - for stdin")
    parser.add_argument("--theme", default="", metavar="T", help="list: only this theme, say storage or gpu")
    parser.add_argument("--scope", default="", metavar="P", help="list, search: of this platform, say slurm or autodl")
    parser.add_argument("--severity", default="", metavar="V", help="list: only blocker, warning or note")
    parser.add_argument("--limit", type=whole, default=5, metavar="N", help="search: at most so many (default 5)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import gotchas as show
    from sojourn.verbs.explain import gotchas

    if args.what == "list":
        if args.text:
            raise Misuse(detail=f"list takes no words; did you mean `search {args.text[0]}`?")
        answer = gotchas.listed(theme=args.theme, scope=args.scope, severity=args.severity)
        screen.answer(answer, show.listed, is_json=args.json)
        return 0
    if args.what == "show":
        if len(args.text) != 1:
            raise Misuse(detail="show takes one ID")
        screen.answer(gotchas.shown(args.text[0]), show.shown, is_json=args.json)
        return 0
    text = " ".join(args.text)
    if args.text == ["-"]:
        text = sys.stdin.buffer.read(MAX_STDIN).decode("utf-8", "replace")
    found = gotchas.searched(text, limit=max(1, args.limit), scope=[args.scope] if args.scope else [])
    screen.answer(found, show.searched, is_json=args.json)
    return found.exit_status
