"""What `down`, `plan` and `run` need to know about a platform: stop verb, danger clocks, and what outlives the stop.

Beside it the names of GPUs (data/gpus.toml), to tell one that nobody can have from one that nobody has in stock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sojourn.core.need import fits
from sojourn.core.values import Clock
from sojourn.store.platforms import UnknownPlatform, document, named, platforms
from sojourn.wire import names

__all__ = ["Platform", "Tier", "UnknownPlatform", "is_gpu", "nearest_gpu", "platform", "platforms"]


@dataclass(frozen=True)
class Tier:
    """One kind of storage. `paths`: where it is mounted, "~" for the home; `stop`, `destroy`: whether it outlives these
    verbs; None if unknown or only partly. `note`: anything else worth knowing.
    """

    name: str
    paths: tuple[str, ...]
    stop: bool | None
    destroy: bool | None
    note: str = ""


@dataclass(frozen=True)
class Platform:
    """What a platform does to a run and to money. `facts_verified`: YYYY-MM of the oldest fact here. `keep_verb`: what
    ends the meter but keeps the disk, "" if unknown; `bills`: whether a machine costs money while it exists, None if
    unknown.
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

    @property
    def volumes(self) -> tuple[str, ...]:
        """Where disks are mounted that may outlast a container, and with it the records in its home."""
        lasting = [tier for tier in self.tiers if tier.stop is not False or tier.destroy is not False]
        return tuple(dict.fromkeys(path for tier in lasting for path in tier.paths if path not in _HOMES))

    def tiers_of(self, path: str) -> tuple[Tier, ...]:
        """The tiers that `path` may be on: those with its longest prefix; () if none is known."""
        fits = [(len(place), tier) for tier in self.tiers for place in tier.paths if _is_under(path, place)]
        longest = max((length for length, _ in fits), default=0)
        return tuple(tier for length, tier in fits if length == longest)

    def tiers_above(self, path: str) -> tuple[tuple[str, Tier], ...]:
        """(folder, tier) for every tier that is mounted at `path` or at a folder above it."""
        parts = path.strip("/").split("/")
        depth = {place: len([part for part in place.split("/") if part]) for tier in self.tiers for place in tier.paths}
        return tuple(
            ("/" + "/".join(parts[: depth[place]]), tier)
            for tier in self.tiers
            for place in tier.paths
            if path[:1] == "/" and _is_under(path, place)
        )

    def keeps(self, path: str) -> bool | None:
        """Whether data at `path` outlives the stop verb; None if unknown."""
        said = {tier.destroy if self.stop_is_final else tier.stop for tier in self.tiers_of(path)}
        return next(iter(said)) if len(said) == 1 else None if said else not self.stop_is_final


@cache
def platform(name: str) -> Platform:
    """The platform with this name or alias. Raises: UnknownPlatform."""
    name = named(name)
    data = document(name)
    told = {"yes": True, "no": False}
    verb, final = data["stop"]["verb"], data["stop"]["is_final"]
    known = {field.name for field in fields(Clock)}
    rows = [{**row, "after_h": float(row.get("after_h", 0))} for row in data.get("clock", ())]
    clocks = tuple(Clock(**{key: value for key, value in row.items() if key in known}) for row in rows)
    oldest = min(fact["verified"] for fact in (verb, final, *data.get("clock", ())))
    tiers = tuple(_tier(row) for row in data.get("tier", ()))
    keeping = data["stop"].get("keeping", {}).get("is", "" if final["is"] else verb["is"])
    bills = told.get(data["price"]["bills"]["is"])
    return Platform(name, data["title"], verb["is"], final["is"], clocks, oldest, tiers, keeping, bills)


# Overrides that are variables of the run; a folder among them is set only where its disk is there.
_VARIABLES = ("HF_HOME", "HF_ENDPOINT", "HF_HUB_DISABLE_XET", "PIP_CACHE_DIR", "TORCH_HOME", "PIP_INDEX_URL")
_HOMES = ("/", "~", "/root", "/home")


@cache
def environment(name: str) -> Mapping[str, Any]:
    """What a platform wants of every run on it, as `platform_env` of run.json; {} where it wants nothing.

    {"set": {NAME: value}, "needs": {NAME: folder that must be there}, "hook": shell line, "no_proxy": "host,..."}:
    from its table `overrides`, of which only what is plain enough to be set without asking: a value that names a
    variable or holds a remark is for people. Beside the cache of Hugging Face lie those of pip and torch.
    Raises: UnknownPlatform.
    """
    facts, over = platform(name), document(named(name)).get("overrides", {})
    plain = {key: str(over[key]) for key in _VARIABLES if over.get(key) and not set(str(over[key])) & set(" $()")}
    values = {key: value for key, value in plain.items() if value[0] == "/" or not key.endswith(("_HOME", "_DIR"))}
    if "HF_HOME" in values:
        above, _, _ = values["HF_HOME"].rpartition("/")
        caches = above if above.endswith("cache") else f"{above}/.cache"
        values = {"PIP_CACHE_DIR": f"{caches}/pip", "TORCH_HOME": f"{caches}/torch", **values}
    needs = {key: _disk_of(facts, value) for key, value in values.items() if value[0] == "/"}
    hook = str(over.get("PROXY_HOOK", ""))
    found: dict[str, Any] = {"set": values, "needs": needs}
    if hook.startswith("source /"):  # anything else here is not one line that is safe in every run
        found |= {"hook": hook, "no_proxy": str(over.get("NO_PROXY", ""))}
    return {key: value for key, value in found.items() if value}


def _disk_of(facts: Platform, path: str) -> str:
    """The folder that must be there for `path` to lie on the disk that is meant."""
    places = [place for tier in facts.tiers for place in tier.paths if place not in _HOMES and _is_under(path, place)]
    return max(places, key=len, default="/" + path.split("/")[1])


def is_gpu(name: str) -> bool:
    """Whether some GPU is called so: "A100", "a100-80gb", "RTX 4090"."""
    return any(fits(name, f"{model} {more}") for model, more in _gpus().items())


def nearest_gpu(name: str) -> str:
    """The known model that is spelled most like `name`; "" where none is near."""
    lower = {model.lower(): model for model in _gpus()}
    return lower.get(names.nearest(name.lower().replace("-", " "), lower), "")


@cache
def _gpus() -> Mapping[str, str]:
    import tomllib
    from importlib.resources import files

    text = files("sojourn").joinpath("data", "gpus.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["gpu"]
    return found


def _tier(row: Mapping[str, Any]) -> Tier:
    """A row of the survival matrix; of its path column, only the parts that are paths."""
    told = {"yes": True, "no": False}
    words = [part.strip().split(" ")[0].replace("$HOME", "~").rstrip("/") or "/" for part in row["path"].split(",")]
    paths = tuple(word for word in words if word[:1] in ("/", "~"))
    return Tier(row["name"], paths, told.get(row["stop"]), told.get(row["destroy"]), row.get("note", ""))


def _is_under(path: str, place: str) -> bool:
    """Whether `path` is `place` or below it; a part of `place` like $USER or NAME matches anything."""
    parts, wanted = path.strip("/").split("/"), [part for part in place.strip("/").split("/") if part]
    if path[:1] != place[:1] or len(wanted) > len(parts):
        return False
    return all(
        want in (part, "~") or want[0] == "$" or want.isupper() for part, want in zip(parts, wanted, strict=False)
    )
