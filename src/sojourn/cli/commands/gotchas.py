"""`sojourn gotchas`."""

from __future__ import annotations

import argparse
import sys

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "list, show and search known ways to lose work or money"
GROUP, PLACE = "Before a run", 215
ABOUT = (
    "`list` prints every entry. `show ID` prints one (its id, its number in the field notes, or a unique prefix)."
    " `search` takes whatever you would type or paste: English or Chinese words, an error, a traceback, or a whole"
    " log (- reads stdin), and says why each entry matched. It works offline.",
)
EXAMPLES = (
    ('sojourn gotchas search "df shows free space but no space left on device"', "in your own words"),
    ('sojourn gotchas search "断开 ssh 训练就停了"', "in Chinese, or mixed"),
    ("sojourn gotchas search - < train.log", "known problems in a log"),
    ("sojourn gotchas show U7", "one entry in full"),
    ("sojourn gotchas list --theme storage", "all entries about storage"),
)
EXITS = (
    (0, "found"),
    (1, "no entry matched"),
    (2, "no such entry; the nearest name is suggested"),
)
MAX_STDIN = 16 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("list", "show", "search"), metavar="list|show|search", help="what to do")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="show: the ID; search: the words, or - for stdin")
    parser.add_argument("--theme", default="", metavar="T", help="list: only this theme, such as storage or gpu")
    parser.add_argument(
        "--scope", default="", metavar="P", help="list, search: only this platform, such as slurm or autodl"
    )
    parser.add_argument("--severity", default="", metavar="V", help="list: only blocker, warning or note")
    parser.add_argument("--limit", type=whole, default=5, metavar="N", help="search: at most N results (default: 5)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
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
        screen.answer(gotchas.show_gotcha(args.text[0]), show.entry, is_json=args.json)
        return 0
    text = " ".join(args.text)
    if args.text == ["-"]:
        text = sys.stdin.buffer.read(MAX_STDIN).decode("utf-8", "replace")
    found = gotchas.searched(text, limit=max(1, args.limit), scope=[args.scope] if args.scope else [])
    screen.answer(found, show.searched, is_json=args.json)
    return found.exit_status
