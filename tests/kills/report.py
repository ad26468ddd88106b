"""The section of docs/reliability.md: what walks of scripts that are not ours came to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests import reliability
from tests.kills.projects import ALL
from tests.kills.walk import Walk

TITLE = "Third-party scripts are killed at random"
KILLS = 20  # of each project on each site, in one walk or in several
SITES = ("local", "ssh")
_ABOUT = """Five projects as their authors wrote them (tests/projects), unaware of sojourn, on this machine (local) and
on a box with a real sshd (ssh), by the README: `init`, `run`, and `resume` after each strike; at the end `pull`,
`verify` and `down`, each with exit status 0 and nothing given up. A strike is SIGKILL or SIGTERM to the training, one
process of it, the keeper, or both, while it starts, between two saves, or within one. Who, what and when come from the
seed.

Held in every walk that is not broken: each attempt resumed no further back than the script's previous save; no run was
called succeeded before its last step; a living training was adopted, not started twice; `status` showed progress;
everything came home and loaded.

Repeat a walk, with its story: `.venv/bin/python -m tests.kills --project NAME --site SITE --seed N --kills N`."""


def read(ledger: Path) -> list[Walk]:
    """What was written down, the newest of each project, site and seed."""
    walks = [Walk(**json.loads(line)) for line in ledger.read_text().splitlines()]
    return list({(one.project, one.site, one.seed): one for one in walks}.values())


def is_whole(walks: Sequence[Walk]) -> bool:
    """Whether each project had its kills on each site."""
    kills = Counter[tuple[str, str]]()
    for one in walks:
        kills[one.project, one.site] += len(one.strikes)
    return all(kills[project.name, site] >= KILLS for project in ALL for site in SITES)


def lines(walks: Sequence[Walk]) -> list[str]:
    """The section: a row for each project and site, then who was struck and how."""
    head = "| script and site | walks | broken | strikes | adopted | most steps repeated | of its interval |"
    told = [*_ABOUT.split("\n"), "", head, "| --- |" + " ---: |" * 6]
    for project in ALL:
        for site in SITES:
            mine = [one for one in walks if (one.project, one.site) == (project.name, site)]
            if not mine:
                continue
            broken, strikes = sum(bool(one.broken) for one in mine), sum(len(one.strikes) for one in mine)
            most = max([0, *(n for one in mine for n in one.again)])
            row = (len(mine), broken, strikes, sum(one.adopted for one in mine), most, project.every)
            told.append(f"| {project.name}, {site} | " + " | ".join(map(str, row)) + " |")
    struck = Counter(strike.split(" + ")[0] for one in walks for strike in one.strikes)
    return [*told, "", *reliability.table("strike", dict(sorted(struck.items())))]
