"""`sojourn platforms`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "what ends a platform's meter, and what it takes away"
GROUP, PLACE = "Knowledge base", 620
ABOUT = (
    "`list` names the platforms that are known; `show NAME` tells one: what stops its meter, what storage outlives"
    " that, its danger clocks, how it interrupts, where things belong there. Every fact about money, storage or"
    " interruption has a source and the month somebody looked. `stale` lists what nobody looked at for long.",
    "A site's platform is the key `platform` under [sites.NAME] in your settings; `plan` and `run` show its clocks.",
)
EXAMPLES = (
    ("sojourn platforms show runpod", "one platform"),
    ("sojourn platforms show 恒源云", "by the name that people use"),
    ("sojourn platforms stale --months 12", "what was not looked at for a year"),
)
EXITS = (
    (0, "told; of `stale`: nothing is stale"),
    (2, "no platform is called so; the nearest name is told"),
    (10, "`stale` lists something"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("what", choices=("list", "show", "stale"), metavar="list|show|stale", help="what to do")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="show, stale: the platform")
    parser.add_argument("--months", type=whole, default=6, metavar="N", help="stale: not looked at for so long")
    parser.add_argument("--at", default="", metavar="YYYY-MM", help="stale: as seen in that month (default: now)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import platforms as show
    from sojourn.verbs.explain import platforms

    if args.what == "list":
        if args.name:
            raise Misuse(detail=f"list takes no name; did you mean `show {args.name}`?")
        screen.answer(platforms.listed(), show.listed, is_json=args.json)
        return 0
    if args.what == "show":
        if not args.name:
            raise Misuse(detail="show takes the NAME of a platform; `sojourn platforms list` names them")
        screen.answer(platforms.shown(args.name), show.shown, is_json=args.json)
        return 0
    answer = platforms.stale(months=args.months, at=args.at, name=args.name)
    screen.answer(answer, show.stale, is_json=args.json)
    return answer.exit_status
