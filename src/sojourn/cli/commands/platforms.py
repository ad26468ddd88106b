"""`sojourn platforms`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "show what stops a platform's billing and what it deletes"
GROUP, PLACE = "Machines and money", 520
ABOUT = (
    "`list` names the known platforms. `show NAME` prints one: what stops its billing, which storage survives that,"
    " its danger clocks, how it interrupts, and where to put files. Every fact about money, storage or interruption"
    " has a source and the month it was last checked. `stale` lists facts that have not been checked recently.",
    "To set a site's platform, use the key `platform` under [sites.NAME] in your settings; `plan` and `run` then"
    " show its danger clocks.",
)
EXAMPLES = (
    ("sojourn platforms show runpod", "one platform"),
    ("sojourn platforms show 恒源云", "by its common name"),
    ("sojourn platforms stale --months 12", "facts not checked for a year"),
)
EXITS = (
    (0, "shown; with `stale`: no stale facts"),
    (2, "no such platform; the nearest name is suggested"),
    (10, "`stale` found stale facts"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("list", "show", "stale"), metavar="list|show|stale", help="what to do")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="show, stale: the platform")
    parser.add_argument(
        "--months", type=whole, default=6, metavar="N", help="stale: not checked for N months (default: 6)"
    )
    parser.add_argument("--at", default="", metavar="YYYY-MM", help="stale: as of that month (default: now)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import platforms as show
    from sojourn.verbs.explain import platforms

    if args.what == "list":
        if args.name:
            raise Misuse(detail=f"list takes no name; did you mean `show {args.name}`?")
        screen.answer(platforms.listed(), show.listed, is_json=args.json)
        return 0
    if args.what == "show":
        if not args.name:
            raise Misuse(detail="show needs the NAME of a platform; `sojourn platforms list` lists them")
        screen.answer(platforms.show_platform(args.name), show.page, is_json=args.json)
        return 0
    answer = platforms.stale(months=args.months, at=args.at, name=args.name)
    screen.answer(answer, show.stale, is_json=args.json)
    return answer.exit_status
