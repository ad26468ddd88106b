"""`python -m tests.law --seed N`, or `--count N --jobs J`: play seeded orders, and print the stories of what broke."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.law.campaign import campaign


def main() -> int:
    """0: all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.law", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one, and print its story")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="/tmp/sojourn-law", help="folder for what broke")
    given = parser.parse_args()
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + given.count)
    verdicts = campaign(seeds, Path(given.keep), jobs=given.jobs, tell=lambda one: say(str(one)))
    broken = [one for one in verdicts if one.broken]
    for one in verdicts if given.seed is not None else broken:
        say("", *one.story)
    late = [one.seed for one in verdicts if one.cut]
    judged, early = sum(one.judged for one in verdicts), sum(one.early for one in verdicts)
    say(f"{len(verdicts)} orders, {judged} releases and removals judged, {early} of them before the honest end")
    say(f"{len(late)} out of time {late}, {len(broken)} broken {[one.seed for one in broken]}")
    return 1 if broken else 0


def say(*lines: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
