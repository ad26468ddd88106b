"""Knowledge that ships as data: so far what `down` and `plan` need of a platform, stop verb and danger clocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sojourn.core.plain import revive
from sojourn.core.values import Clock
from sojourn.wire import names
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


class UnknownPlatform(Misuse):
    """No platform is called {name!r}{hint}."""

    code = "unknown-platform"


@dataclass(frozen=True)
class Platform:
    """What a platform does to a run and to money. `facts_verified`: YYYY-MM of the oldest fact here."""

    name: str
    title: str
    stop_verb: str
    stop_is_final: bool
    clocks: tuple[Clock, ...]
    facts_verified: str


def platforms() -> list[str]:
    """Names of all platforms that ship, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


@cache
def platform(name: str) -> Platform:
    """The platform of this name. Raises: UnknownPlatform."""
    import tomllib

    known = platforms()
    if name not in known:
        near = names.nearest(name, known)
        hint = f"; the nearest is {near!r}" if near else f"; there are {', '.join(known)}"
        raise UnknownPlatform(name=name, hint=hint)
    data = tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    verb, final = data["stop"]["verb"], data["stop"]["is_final"]
    clocks = tuple(revive(Clock, clock) for clock in data.get("clock", ()))
    oldest = min(fact["verified"] for fact in (verb, final, *data.get("clock", ())))
    return Platform(name, data["title"], verb["is"], final["is"], clocks, oldest)


def _folder() -> Traversable:
    from importlib.resources import files

    return files("sojourn").joinpath("data", "platforms")
