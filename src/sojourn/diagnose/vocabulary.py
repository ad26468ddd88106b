"""The observations that conditions speak of: name, type, unit, the probe that takes it, and how.

`make pages` builds `docs/observations.md` from it. A row is `name | type | unit | probe | how`; `?` after a type: may
be null, looked for and not there. An observation without a probe names who gives it (launch, client, provider, user).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sojourn.diagnose import vocabulary_box, vocabulary_run, vocabulary_world
from sojourn.diagnose.facts import table

TYPES = ("bool", "int", "float", "text", "list", "map")


@dataclass(frozen=True)
class Observation:
    """One kind of fact. `probe`: what settles it; `how`: how the value comes about."""

    name: str
    type: str
    unit: str
    probe: str
    how: str
    may_be_null: bool = False


@cache
def observations() -> dict[str, Observation]:
    """Every observation by name, in the order of the tables."""
    found = {}
    for text in (vocabulary_run.TABLE, vocabulary_box.TABLE, vocabulary_world.TABLE, *_of_schedulers()):
        for row in text.strip().splitlines():
            name, kind, unit, probe, how = (cell.strip() for cell in row.split("|", 4))
            found[name] = Observation(name, kind.rstrip("?"), unit, probe, how, kind.endswith("?"))
    return found


@cache
def scheduled() -> frozenset[str]:
    """Observations that a scheduler keeps of its jobs."""
    return frozenset(row.partition(" |")[0] for text in _of_schedulers() for row in text.strip().splitlines())


@cache
def outputs() -> tuple[str, ...]:
    """Those of them that are what a job itself printed: as good as a log."""
    return tuple(sorted(name for name in scheduled() if name.endswith(".out")))


def _of_schedulers() -> list[str]:
    return [str(source.TABLE) for source in table.sources() if hasattr(source, "TABLE")]


def probe_for(name: str) -> str:
    """The probe that would settle an observation, "" for an unknown name."""
    known = observations().get(name)
    return known.probe if known else ""
