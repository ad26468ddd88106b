"""Everything that belongs to sojourn on a box, whoever put it there: recorded runs, and strays without a record."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.law import Stray
from sojourn.core.values import NoAnswer
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.wire import quote

SURVEY_S = 60.0
MOST_PAGES = 1000
MOST_BASES = 1000


@dataclass(frozen=True)
class Survey:
    """A box's own account. `box`: the id that it gave its `base`, "" if it did not answer.

    known: records of the runs that lie there. rows: of each of them, what the box says of it.
    """

    asked: Box
    box: str = ""
    known: tuple[RunRecord, ...] = ()
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strays: tuple[Stray, ...] = ()
    base: str = ""

    def box_of(self, row: Mapping[str, Any]) -> Box:
        """The way to a run that lies on this box, in whatever base."""
        base = str(row["root"])[: -len(f"/runs/{row['id']}")]
        return self.asked if base == self.base else self.asked.at(base)


def survey(ctx: Context, box: Box) -> Survey:
    """Ask the box for every run of every base of this user. A box that does not answer is a stray of its own.

    Raises: WorldError where it answers with an error.
    """
    site = box.site.name
    ctx.say(f"{site}: listing other runs on the box")
    known: dict[str, RunRecord] = {}
    rows: dict[str, Mapping[str, Any]] = {}
    strays: list[Stray] = []
    first: Mapping[str, Any] = {}
    page: Mapping[str, Any] | NoAnswer = {}
    for page in _pages(box, _bases_on_record(ctx, box)):
        if isinstance(page, NoAnswer):
            return Survey(box, strays=(_unseen(site),))
        first = first or page
        for base in page["bases"]:
            if base.get("error"):
                strays.append(_unread(site, str(base["base"]), str(base["error"])))
            for row in base["runs"]:
                record = _record_of(ctx, site, row)
                if record is None:
                    strays.append(_stray(site, base, row, is_own=base["base"] == page["box"]["base"]))
                    continue
                known[record.id] = record
                rows[record.id] = row
    if not isinstance(page, NoAnswer) and page.get("more"):
        strays.append(_endless(site))
    others = first.get("others") or {"uids": 0, "runs": 0}
    if others["uids"]:
        strays.append(_others(site, others))
    told = first["box"]
    return Survey(
        box, str(told.get("id") or ""), tuple(known.values()), rows, tuple(strays), str(told.get("base") or "")
    )


def _bases_on_record(ctx: Context, box: Box) -> list[str]:
    """Every base in which this client ever had a run at this address, or on a machine of this provider: its volume may
    be mounted here, and the box's own registry may have ended with its container.
    """
    found: dict[str, None] = {}
    for record in ctx.store.index.runs():
        site, root = record.site, record.run.root
        is_same = site.address == box.site.address or (box.provider.rents and site.provider == box.site.provider)
        if root and site.transport == box.site.transport and is_same:
            found[posixpath.dirname(posixpath.dirname(root))] = None
    return sorted(found)[:MOST_BASES]


def _pages(box: Box, bases: list[str]) -> Iterator[Mapping[str, Any] | NoAnswer]:
    after = ""
    for _ in range(MOST_PAGES):
        answer = box.ask("survey", timeout_s=SURVEY_S, after=after, bases=bases, tiers=box.volumes)
        if isinstance(answer, NoAnswer):
            yield answer
            return
        yield answer.value
        following = str(answer.value.get("after") or "")
        if not answer.value["more"] or following <= after:
            return
        after = following


def _record_of(ctx: Context, site: str, row: Mapping[str, Any]) -> RunRecord | None:
    """The record of exactly this root; None where it is another client's, or another run under this name.

    Whether its site is another name of this box, or another box with the same folders, does not matter: what is judged
    is what lies here.
    """
    record = ctx.store.index.run(str(row["id"]))
    if record is None or not record.attempt or not record.run.has_been(row["identity"]):
        return None
    was_let_go = record.phase in ("withdrawn", "moving") and not record.heard.attempt
    if was_let_go and row["attempt"]:  # it was begun after we took it from its queue: by somebody else
        return None
    is_here = record.run.root == row["root"] or (not record.run.root and record.site_name == site)
    return record if is_here else None


def _stray(site: str, base: Mapping[str, Any], row: Mapping[str, Any], *, is_own: bool) -> Stray:
    name = f"{site}:{base['base']}/{row['id']}"
    if row["lives"]:
        what = f"a run with no record on this machine is alive there ({row['lives']}): stop it where it was started"
        return Stray(name, what, f"sojourn recover {site}", is_alive=True, state="alive")
    word = str(row["state"] or "")
    state = f", {word}" if word else ""
    what = f"a run with no record on this machine is there{state}"
    if is_own:
        return Stray(name, f"{what}: recover it, or give it up by this name", f"sojourn recover {site}", state=word)
    what += f", in another base: recover it with a site whose base is {base['base']}, or give it up by this name"
    return Stray(name, what, _giving_up(site, name), state=word)


def _unread(site: str, base: str, error: str) -> Stray:
    name = f"{site}:{base}"
    return Stray(name, f"what is there cannot be read ({error})", _giving_up(site, name))


def _unseen(site: str) -> Stray:
    name = f"{site}:unseen"
    what = "the box does not answer, so runs from other clients are unknown"
    return Stray(name, what, _giving_up(site, name))


def _endless(site: str) -> Stray:
    name = f"{site}:unlisted"
    return Stray(name, "its list of runs never ends: other runs on it are unknown", _giving_up(site, name))


def _giving_up(site: str, name: str) -> str:
    return quote.join(["sojourn", "down", site, "--abandon", name])


def _others(site: str, others: Mapping[str, Any]) -> Stray:
    name = f"{site}:others"
    what = f"other users of this machine ({others['uids']}) have runs here ({others['runs']}) that you cannot see into"
    return Stray(name, what, _giving_up(site, name))
