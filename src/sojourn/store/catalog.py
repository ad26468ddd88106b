"""What `down`, `plan` and `run` need of a platform: stop verb, danger clocks, and what outlives the stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sojourn.core.values import Clock
from sojourn.store.platforms import UnknownPlatform, document, named, platforms

__all__ = ["Platform", "Tier", "UnknownPlatform", "platform", "platforms"]


@dataclass(frozen=True)
class Tier:
    """One kind of storage. `paths`: where it lies, "~" for the home; `stop`, `destroy`: whether it outlives these
    verbs; None where that is unknown or only partly so. `note`: what else is to be known.
    """

    name: str
    paths: tuple[str, ...]
    stop: bool | None
    destroy: bool | None
    note: str = ""


@dataclass(frozen=True)
class Platform:
    """What a platform does to a run and to money. `facts_verified`: YYYY-MM of the oldest fact here. `keep_verb`: what
    ends the meter so that the disk stays, "" where nothing is known to; `bills`: whether a machine costs money while it
    exists, None where nobody knows.
    """

    name: str
    title: str
    stop_verb: str
    stop_is_final: bool
    clocks: tuple[Clock, ...]
    facts_verified: str
    tiers: tuple[Tier, ...] = ()
    keep_verb: str = ""
    bills: bool | None = None

    def tiers_of(self, path: str) -> tuple[Tier, ...]:
        """The tiers that `path` may lie on: those with the longest path that it begins with; () where none is known."""
        fits = [(len(place), tier) for tier in self.tiers for place in tier.paths if _is_under(path, place)]
        longest = max((length for length, _ in fits), default=0)
        return tuple(tier for length, tier in fits if length == longest)

    def keeps(self, path: str) -> bool | None:
        """Whether what lies at `path` outlives the stop verb; None where that is not known."""
        said = {tier.destroy if self.stop_is_final else tier.stop for tier in self.tiers_of(path)}
        return next(iter(said)) if len(said) == 1 else None if said else not self.stop_is_final


@cache
def platform(name: str) -> Platform:
    """The platform of this name, or of a name that people use for it. Raises: UnknownPlatform."""
    name = named(name)
    data = document(name)
    told = {"yes": True, "no": False}
    verb, final = data["stop"]["verb"], data["stop"]["is_final"]
    known = {field.name for field in fields(Clock)}
    clocks = tuple(Clock(**{key: value for key, value in row.items() if key in known}) for row in data.get("clock", ()))
    oldest = min(fact["verified"] for fact in (verb, final, *data.get("clock", ())))
    tiers = tuple(_tier(row) for row in data.get("tier", ()))
    keeping = data["stop"].get("keeping", {}).get("is", "" if final["is"] else verb["is"])
    bills = told.get(data["price"]["bills"]["is"])
    return Platform(name, data["title"], verb["is"], final["is"], clocks, oldest, tiers, keeping, bills)


def _tier(row: Mapping[str, Any]) -> Tier:
    """A row of the survival matrix; of its path, the parts that are paths."""
    told = {"yes": True, "no": False}
    words = [part.strip().split(" ")[0].replace("$HOME", "~").rstrip("/") or "/" for part in row["path"].split(",")]
    paths = tuple(word for word in words if word[:1] in ("/", "~"))
    return Tier(row["name"], paths, told.get(row["stop"]), told.get(row["destroy"]), row.get("note", ""))


def _is_under(path: str, place: str) -> bool:
    """Whether `path` is `place` or below it; a part of `place` like $USER or NAME stands for any."""
    parts, wanted = path.strip("/").split("/"), [part for part in place.strip("/").split("/") if part]
    if path[:1] != place[:1] or len(wanted) > len(parts):
        return False
    return all(
        want in (part, "~") or want[0] == "$" or want.isupper() for part, want in zip(parts, wanted, strict=False)
    )
