"""`platforms`: the facts about each platform, their age, and which of them are stale."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.store.platforms import Fact, document, facts, named, own, platforms
from sojourn.wire.errors import Misuse

FRESH_MONTHS = 6  # older facts are listed by `platforms stale`


@dataclass(frozen=True)
class Card:
    """One line of the list. `oldest`: YYYY-MM of the oldest fact about money, storage or interruption."""

    platform: str
    title: str
    names: tuple[str, ...]
    kind: str
    stop_verb: str
    is_final: bool
    oldest: str


@dataclass(frozen=True)
class Listed:
    """Every platform, by name."""

    cards: tuple[Card, ...]

    def as_json(self) -> dict[str, Any]:
        """`{"platforms": [{"platform", "title", "names", "kind", "stop": {"verb", "final"}, "oldest"}]}`."""
        rows = [
            {
                "platform": card.platform,
                "title": card.title,
                "names": list(card.names),
                "kind": card.kind,
                "stop": {"verb": card.stop_verb, "final": card.is_final},
                "oldest": card.oldest,
            }
            for card in self.cards
        ]
        return {"schema": "sojourn/platforms-list/v1", "platforms": rows}


@dataclass(frozen=True)
class PlatformPage:
    """One platform. `document`: all that holds; `own`: what its own file says, the rest it has from `extends`."""

    platform: str
    document: Mapping[str, Any]
    own: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The whole document, and which parts it has from the platform that it extends."""
        inherited = sorted(part for part in self.document if part not in self.own)
        return {
            "schema": "sojourn/platform/v1",
            "platform": self.platform,
            "inherited": inherited,
            **dict(self.document),
        }


@dataclass(frozen=True)
class Stale:
    """Facts that nobody looked at for `months` months before `at` (YYYY-MM), oldest first; those of money first."""

    at: str
    months: int
    facts: tuple[Fact, ...]

    @property
    def exit_status(self) -> int:
        """0 nothing is stale, 10 something is."""
        return 10 if self.facts else 0

    def as_json(self) -> dict[str, Any]:
        """`{"at", "months", "stale": [{"platform", "where", "says", "source", "verified", "age_months", "grave"}]}`."""
        rows = [
            {
                "platform": fact.platform,
                "where": fact.where,
                "says": fact.says,
                "source": fact.source,
                "verified": fact.verified,
                "age_months": fact.age_months(self.at),
                "grave": fact.is_grave,
            }
            for fact in self.facts
        ]
        return {"schema": "sojourn/platforms-stale/v1", "at": self.at, "months": self.months, "stale": rows}


def listed() -> Listed:
    """Every platform that ships."""
    return Listed(tuple(_card(name) for name in platforms()))


def show_platform(name: str) -> PlatformPage:
    """The platform of this name, of a name people use for it, or of a unique beginning. Raises: UnknownPlatform."""
    name = named(name)
    return PlatformPage(name, document(name), own(name))


def stale(*, months: int = FRESH_MONTHS, at: str = "", name: str = "") -> Stale:
    """Facts of every platform, or of one, that were last looked at `months` or more before `at` (default: now).

    Raises: UnknownPlatform; Misuse for an `at` that is not YYYY-MM.
    """
    at = at or time.strftime("%Y-%m", time.gmtime())
    if len(at) != 7 or at[4] != "-" or not (at[:4] + at[5:]).isdigit():
        raise Misuse(detail=f"{at!r} is not a month like 2026-11")
    every = [fact for one in ([named(name)] if name else platforms()) for fact in facts(one)]
    old = [fact for fact in every if fact.age_months(at) >= months]
    return Stale(at, months, tuple(sorted(old, key=lambda fact: (not fact.is_grave, fact.verified, fact.platform))))


def _card(name: str) -> Card:
    whole = document(name)
    stop = whole["stop"]
    oldest = min(fact.verified for fact in facts(name) if fact.is_grave)
    names = tuple(whole.get("names", ()))
    return Card(name, whole["title"], names, whole.get("kind", ""), stop["verb"]["is"], stop["is_final"]["is"], oldest)
