"""What the cells of a sweep cost, as far as those that are finished tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sojourn.core.spread import Sibling, Wanted, expected, speeds
from sojourn.core.values import Site, State
from sojourn.store.records import RunRecord

NOTHING: Mapping[str, float] = MappingProxyType({})


def costs_of(
    records: Sequence[RunRecord], wanted: Mapping[str, Wanted], running: Mapping[str, float] = NOTHING
) -> tuple[dict[str, float], dict[str, float]]:
    """(the expected cost of each wanted cell, the speed of each box that is known), from what is finished.

    `running`: how long cells that are not finished will have taken, as they themselves tell.
    """
    took = {r.id: r.status.spent_s for r in records if r.status.state is State.SUCCEEDED and r.status.spent_s > 0}
    took.update(running)
    done = [record for record in records if record.id in took]
    stated = {record.id: wanted_of(record) for record in done}
    states_epochs = {bool(one.epochs) for one in stated.values()}
    rates = [(record.site_name, float(stated[record.id].epochs or 1), took[record.id]) for record in done]
    fast = speeds(rates if len(states_epochs) == 1 else [])  # those of some cells say nothing of the others
    siblings = [
        Sibling(stated[record.id].values, took[record.id] * fast.get(record.site_name, 1.0), stated[record.id].epochs)
        for record in done
    ]
    return expected(wanted, siblings), fast


def speeds_of(sites: Sequence[Site], learned: Mapping[str, float]) -> dict[str, float]:
    """How fast each site's box is: as its finished cells show where all have some, else as settings say, else 1."""
    if all(site.name in learned for site in sites):
        return dict(learned)
    return {site.name: float(site.options.get("speed") or 1.0) for site in sites}


def wanted_of(record: RunRecord) -> Wanted:
    """A cell as it was planned, for what it may cost."""
    return Wanted(record.local.get("values") or {}, record.local.get("epochs"))
