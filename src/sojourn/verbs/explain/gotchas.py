"""`gotchas`: the catalog of known causes, listed, shown, and searched by what a person types or pastes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sojourn.core.gotcha import Gotcha
from sojourn.diagnose.search import Found, Search
from sojourn.store.compiled import DATA, PACKAGE, compiled
from sojourn.store.gotchas import SOURCES, gotchas
from sojourn.wire import names
from sojourn.wire.errors import Misuse

_WORDS = os.path.join(DATA, "words.toml")
_SOURCES = (_WORDS, *(os.path.join(PACKAGE, "diagnose", name) for name in ("search.py", "words.py")))
LIMIT = 5  # answers of a search, unless more are asked for


class UnknownGotcha(Misuse):
    """No gotcha is called {name!r}{hint}."""

    code = "unknown-gotcha"
    next_step = "sojourn gotchas search {name}"


@dataclass(frozen=True)
class Listed:
    """Entries in the order of their themes, then ids. `of`: what they were narrowed to, for the reader."""

    gotchas: tuple[Gotcha, ...]
    of: str = ""

    def as_json(self) -> dict[str, Any]:
        """`{"gotchas": [{"id", "was", "title", "theme", "scope", "severity"}]}`."""
        rows = [
            {
                "id": one.id,
                "was": one.was,
                "title": one.title,
                "theme": one.theme,
                "scope": list(one.scope),
                "severity": one.severity,
            }
            for one in self.gotchas
        ]
        return {"schema": "sojourn/gotchas-list/v1", "gotchas": rows}


@dataclass(frozen=True)
class GotchaEntry:
    """One entry. `related`: (id, title) of others that are asked about in the same breath."""

    gotcha: Gotcha
    related: tuple[tuple[str, str], ...]

    def as_json(self) -> dict[str, Any]:
        """Everything the entry says, and `related`."""
        one = self.gotcha
        return {
            "schema": "sojourn/gotcha/v1",
            "id": one.id,
            "was": one.was,
            "merged": [{"was": m.was, "scope": m.scope, "why": m.why} for m in one.merged],
            "title": one.title,
            "theme": one.theme,
            "scope": list(one.scope),
            "severity": one.severity,
            "role": one.role,
            "symptom": {"en": one.symptom_en, "zh": one.symptom_zh},
            "patterns": [{"text": p.regex, "where": p.where, "proves": p.proves} for p in one.patterns],
            "synonyms": list(one.synonyms),
            "cause": one.cause,
            "fix": one.fix,
            "never": one.never,
            "check": [{"run": check.run, "shows": check.shows} for check in one.check],
            "confirm": list(one.confirm),
            "refute": list(one.refute),
            "weak": list(one.weak),
            "undecidable": one.undecidable,
            "refines": list(one.refines),
            "related": [{"id": name, "title": title} for name, title in self.related],
            "sources": list(one.sources),
        }


@dataclass(frozen=True)
class Searched:
    """The search results, best first. `fixes`: those of the first entry."""

    text: str
    results: tuple[Found, ...]
    best: Gotcha | None

    @property
    def exit_status(self) -> int:
        """0 something was found, 1 nothing."""
        return 0 if self.results else 1

    def as_json(self) -> dict[str, Any]:
        """`{"results": [{"id", "was", "title", "score", "why", "related"}]}`."""
        rows = [
            {
                "id": found.id,
                "was": found.was,
                "title": found.title,
                "score": found.score,
                "why": list(found.why),
                "related": list(found.related),
            }
            for found in self.results
        ]
        return {"schema": "sojourn/gotchas-search/v1", "results": rows}


def listed(*, theme: str = "", scope: str = "", severity: str = "") -> Listed:
    """The catalog, or what of it is of this theme, scope and severity. Raises: Misuse for one that nothing has."""
    kept = sorted(gotchas(), key=lambda one: (one.theme, one.id))
    for what, wanted in (("theme", theme), ("scope", scope), ("severity", severity)):
        if not wanted:
            continue
        has = {one.id: (getattr(one, what),) if what != "scope" else one.scope for one in gotchas()}
        known = sorted({value for values in has.values() for value in values})
        if wanted not in known:
            near = names.nearest(wanted, known)
            raise Misuse(detail=f"no {what} is called {wanted!r}; " + (near or f"there are {', '.join(known)}"))
        kept = [one for one in kept if wanted in has[one.id]]
    return Listed(tuple(kept), ", ".join(filter(None, (theme, scope, severity))))


def show_gotcha(name: str) -> GotchaEntry:
    """The entry of this id, seed number (capital letters or not), or unique beginning of an id.

    Raises: UnknownGotcha, with the nearest name.
    """
    one = _named(name)
    titles = {other.id: other.title for other in gotchas()}
    related: list[str] = next((entry[4] for entry in search_index()["entries"] if entry[0] == one.id), [])
    return GotchaEntry(one, tuple((other, titles[other]) for other in related if other in titles))


def searched(text: str, *, limit: int = LIMIT, scope: Sequence[str] = ()) -> Searched:
    """What answers `text`: words in English or Chinese, an error, a traceback, or a whole log.

    A name is answered with its entry. Raises: Misuse for an empty text.
    """
    if not text.strip():
        raise Misuse(detail="nothing to search for: give some words, an error, or - and a log on stdin")
    found = _search().find(text, limit=limit, scope=scope)
    try:
        named = _named(text.strip()) if len(text.split()) == 1 else None
    except UnknownGotcha:
        named = None
    if named is not None and named.id not in [one.id for one in found[:1]]:
        own = Found(named.id, named.was, named.title, 100.0, ("its name",), show_gotcha(named.id).gotcha.see)
        found = [own, *(one for one in found if one.id != named.id)][:limit]
    best = next((one for one in gotchas() if found and one.id == found[0].id), None)
    return Searched(text, tuple(found), best)


@cache
def search_index() -> Mapping[str, Any]:
    """The compiled index of `diagnose.search`, from the catalog and data/words.toml."""
    index: Mapping[str, Any] = compiled("search", (*SOURCES, *_SOURCES), _compile)
    return index


def _compile() -> dict[str, Any]:
    import tomllib

    from sojourn.diagnose.search import compile_index

    with open(_WORDS, "rb") as file:
        words = tomllib.load(file)
    return compile_index(gotchas(), words["same"], words["places"])


@cache
def _search() -> Search:
    return Search(search_index(), gotchas())


def _named(name: str) -> Gotcha:
    wanted = name.strip().lower()
    exact = [one for one in gotchas() if wanted in (one.id, one.was.lower())]
    exact = exact or [one for one in gotchas() if wanted in [m.was.lower() for m in one.merged]]
    begins = exact or [one for one in gotchas() if wanted and one.id.startswith(wanted)]
    if exact or len(begins) == 1:
        return begins[0]
    if begins:
        some = ", ".join(one.id for one in begins[:4]) + (f" and {len(begins) - 4} more" if len(begins) > 4 else "")
        raise UnknownGotcha(name=name, hint=f"; several entries begin with it: {some}")
    beginnings = {one.id[: max(4, len(wanted))]: one.id for one in reversed(gotchas())}
    near = names.nearest(wanted, [n for one in gotchas() for n in (one.id, one.was.lower()) if n])
    near = near or beginnings.get(names.nearest(wanted, beginnings), "")
    raise UnknownGotcha(name=name, hint=f"; the nearest is {near!r}" if near else "")
