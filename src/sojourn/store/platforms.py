"""data/platforms/*.toml: facts about each platform, with source and month of the last check.

A file holds only what differs from the one it `extends`. `document` is the whole; `facts` are a file's own, for their
age; `faults` is what a test checks in every file. Schema: docs/adding-a-platform.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sojourn.wire import names
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

TOLD = ("yes", "no", "partly", "unknown", "does not apply")  # values of a cell of the survival matrix
# Parts where every fact concerns money, storage, interruption or teardown: a wrong one loses work or money.
GRAVE = ("stop", "verb", "tier", "interruption", "clock", "storage", "traffic", "price")
ROWS = {
    "verb": ("name", "ends_compute", "keeps", "bills", "undo"),
    "tier": ("name", "path", "stop", "destroy", "size"),
    "clock": ("what", "at", "loses"),
}
_OPTIONAL = {"verb": ("note",), "tier": ("note",), "clock": ("after_h", "readable", "since")}
FACTS = ("stop", "interruption", "storage", "traffic", "price")  # tables of { is, source, verified }
PLAIN = ("detach", "network", "ssh", "credentials", "ports", "overrides", "api")  # one source for the whole table
_HEAD = ("extends", "title", "names", "kind", "control", "quirks", "conflicts", "open", "site")
_SITE = {"word", "transport", "launcher", "alone", "base", "job"}
_MONTH = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])")


class UnknownPlatform(Misuse):
    """No platform is called {name!r}{hint}."""

    code = "unknown-platform"


@dataclass(frozen=True)
class Fact:
    """One fact of a platform's own file. `where`: its key there; `is_grave`: about money, storage, interruption."""

    platform: str
    where: str
    says: str
    source: str
    verified: str
    is_grave: bool

    def age_months(self, today: str) -> int:
        """Months from the check to `today` (YYYY-MM or longer)."""
        then, now = self.verified.split("-"), today.split("-")
        return (int(now[0]) - int(then[0])) * 12 + int(now[1]) - int(then[1])


def platforms() -> list[str]:
    """Names of all shipped platforms, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def named(text: str) -> str:
    """The platform with this name or alias. Raises: UnknownPlatform, with the nearest."""
    known = platforms()
    wanted = text.strip().lower()
    if wanted in known:
        return wanted
    spoken = {str(word).lower(): name for name in known for word in own(name).get("names", ())}
    if wanted in spoken:
        return spoken[wanted]
    begins = [name for name in known if wanted and name.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    near = names.nearest(wanted, [*known, *spoken])
    near = spoken.get(near, near)
    raise UnknownPlatform(name=text, hint=f"; the nearest is {near!r}" if near else f"; there are {', '.join(known)}")


@cache
def sites() -> Mapping[str, Mapping[str, str]]:
    """What WORD in a site WORD:ADDRESS means: the table `site` of a platform's own file, and the `platform`.

    `alone`: the transport of a site called just WORD; without it, there is none.
    """
    import tomllib

    found = {}
    for name in platforms():
        _, has_one, rest = text_of(name).partition("\n[site]\n")
        if has_one:  # the rest is not read: even a mere `status` needs this
            row = tomllib.loads(rest.partition("\n[")[0])
            found[row["word"]] = {**row, "platform": name}
    return found


def job_keys() -> list[str]:
    """Words that are keys of a job file too: with what such a kind of site, and no other, makes of a job."""
    return [word for word, row in sites().items() if row.get("job") == "yes"]


@cache
def own(name: str) -> Mapping[str, Any]:
    """The contents of this platform's own file."""
    import tomllib

    return tomllib.loads(text_of(name))


def text_of(name: str) -> str:
    """The text of this platform's own file."""
    return _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")


@cache
def document(name: str) -> Mapping[str, Any]:
    """Everything that holds for this platform: its own file over the one it extends. Tables are merged key by key;
    lists are replaced. Raises: UnknownPlatform.
    """
    if name not in platforms():
        named(name)
        raise UnknownPlatform(name=name, hint="")
    mine = own(name)
    if "extends" not in mine:
        return mine
    whole = {key: value for key, value in document(mine["extends"]).items() if key not in _HEAD}
    for key, value in mine.items():
        whole[key] = {**whole.get(key, {}), **value} if isinstance(value, dict) else value
    return whole


def facts(name: str) -> list[Fact]:
    """The facts in this platform's own file, in file order."""
    out = []
    for part, value in own(name).items():
        if part in ROWS:
            for row in value:
                first = ROWS[part][0]
                says = "; ".join(str(row[key]) for key in ROWS[part][1:])
                out.append(_fact(name, f"{part} {row[first]}", says, row))
        elif part in FACTS:
            out += [_fact(name, f"{part}.{key}", str(fact["is"]), fact) for key, fact in value.items()]
        elif part in PLAIN:
            out.append(_fact(name, part, ", ".join(key for key in value if key not in ("source", "verified")), value))
    return out


def faults(mine: Mapping[str, Any]) -> list[str]:
    """What breaks the schema in a platform's own file, one line each."""
    return list(_faults(mine))


def _faults(mine: Mapping[str, Any]) -> Iterator[str]:
    parent = document(mine["extends"]) if "extends" in mine else {}
    if not mine.get("title"):
        yield "title lacks"
    for part, value in mine.items():
        if part in ROWS:
            yield from _faults_of_rows(part, value, parent.get(part))
        elif part in FACTS:
            for key, fact in value.items():
                if set(fact) != {"is", "source", "verified"} or fact["is"] == "":
                    yield f"{part}.{key}: a fact is {{ is, source, verified }}"
                elif fact == parent.get(part, {}).get(key):
                    yield f"{part}.{key}: repeats what it extends"
                yield from _undated(f"{part}.{key}", fact)
        elif part in PLAIN:
            for key in value:
                if key not in ("source", "verified") and value[key] == parent.get(part, {}).get(key):
                    yield f"{part}.{key}: repeats what it extends"
            yield from _undated(part, value)
        elif part == "site" and not {"word", "transport", "launcher"} <= set(value) <= _SITE:
            yield "site: word, transport, launcher and perhaps alone are needed"
        elif part not in _HEAD:
            yield f"{part}: no such part"


def _faults_of_rows(part: str, rows: list[Mapping[str, Any]], above: object) -> Iterator[str]:
    if rows == above:
        yield f"{part}: repeats what it extends"
    for row in rows:
        where = f"{part} {row.get(ROWS[part][0])}"
        if odd := set(row) - {*ROWS[part], *_OPTIONAL[part], "source", "verified"}:
            yield f"{where}: no such key as {sorted(odd)[0]}"
        if lacks := [key for key in ROWS[part] if not row.get(key)]:
            yield f"{where}: {lacks[0]} lacks"
        for key in {"tier": ("stop", "destroy"), "verb": ("ends_compute", "undo"), "clock": ()}[part]:
            if row.get(key) not in TOLD:
                yield f"{where}: {key} is one of {', '.join(TOLD)}"
        yield from _undated(where, row)


def _undated(where: str, row: Mapping[str, Any]) -> Iterator[str]:
    if not row.get("source") or not _MONTH.fullmatch(str(row.get("verified", ""))):
        yield f"{where}: source, and verified as YYYY-MM, are needed"


def _fact(name: str, where: str, says: str, row: Mapping[str, Any]) -> Fact:
    return Fact(name, where, says, row["source"], row["verified"], where.split()[0].split(".")[0] in GRAVE)


def _folder() -> Traversable:
    from importlib.resources import files

    return files("sojourn").joinpath("data", "platforms")
