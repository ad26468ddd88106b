"""The observations that conditions speak of: name, type, unit, the probe that takes it, and how.

`docs/observations.md` is produced from here. A row is `name | type | unit | probe | how`; `?` after a type: may be
null, looked for and not there. What no probe of the keeper takes names who tells it (launch, client, provider, user).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sojourn.diagnose import vocabulary_box, vocabulary_run, vocabulary_world

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
    for table in (vocabulary_run.TABLE, vocabulary_box.TABLE, vocabulary_world.TABLE):
        for row in table.strip().splitlines():
            name, kind, unit, probe, how = (cell.strip() for cell in row.split("|", 4))
            found[name] = Observation(name, kind.rstrip("?"), unit, probe, how, kind.endswith("?"))
    return found


def probe_for(name: str) -> str:
    """The probe that would settle an observation, "" for an unknown name."""
    known = observations().get(name)
    return known.probe if known else ""
