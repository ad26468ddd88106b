"""Where the cells of a sweep go: by what they cost, what each box has to do already, and what it has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sojourn.core import spread
from sojourn.core.fold import Status
from sojourn.core.values import Finding, State
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.launch.stop import withdraw
from sojourn.verbs.observe.costs import costs_of, speeds_of, wanted_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.sweep.cells import PreparedCell, PreparedSweep
from sojourn.verbs.sweep.slots import SiteSlots, judged
from sojourn.wire.errors import WorldError

LEAST_DONE = 0.05  # of a cell, before its pace is believed
MUCH_SOONER = 0.9  # of what it takes as it stands: less is not worth the moving


def placed_on(
    prepared: PreparedSweep,
    known: Mapping[str, RunRecord],
    new: Sequence[PreparedCell],
    fixed: Mapping[str, str],
    offers: Sequence[SiteSlots],
) -> tuple[dict[str, str], list[SiteSlots], tuple[Finding, ...]]:
    """The site of each cell to queue now, the offers used, and the blockers if no site is left.

    `fixed`: cells whose site is settled already. A box without room for its part is left out, and its part placed on
    the others.
    """
    first: tuple[Finding, ...] = ()
    free = [cell for cell in new if cell.id not in fixed]
    while offers:
        placed = {**place(prepared.cells, known, free, offers), **fixed}
        parts = by_site(placed)
        left = []
        for offer in offers:
            found = judged(offer, prepared, len(parts.get(offer.box.site.name, ())))
            if replace(offer, findings=found).is_usable:
                left.append(offer)
            else:
                first = first or found
        usable = {offer.box.site.name for offer in left}
        if len(left) == len(offers):
            return {cell: site for cell, site in placed.items() if site in usable}, list(offers), ()
        offers = left
    return {}, [], first


def place(
    cells: Sequence[PreparedCell],
    known: Mapping[str, RunRecord],
    new: Sequence[PreparedCell],
    offers: Sequence[SiteSlots],
) -> dict[str, str]:
    """The site of each new cell, by what cells cost and what each box has to do already; the longest first."""
    wanted = {cell.id: spread.Wanted(cell.cell.values, cell.cell.epochs) for cell in cells}
    wanted |= {record.id: wanted_of(record) for record in known.values() if record.id not in wanted}
    costs, fast = costs_of(list(known.values()), wanted)
    loads: dict[str, float] = {}
    for record in known.values():
        if not record.status.state.is_final and record.phase != "moving":
            loads[record.site_name] = loads.get(record.site_name, 0.0) + costs[record.id]
    boxes = lanes_of(offers, fast, loads)
    return spread.place({cell.id: costs[cell.id] for cell in new}, boxes)


def lanes_of(
    offers: Sequence[SiteSlots], learned: Mapping[str, float], loads: Mapping[str, float]
) -> list[spread.Lanes]:
    """The boxes of these offers as placement sees them."""
    fast = speeds_of([offer.box.site for offer in offers], learned)
    names = [offer.box.site.name for offer in offers]
    return [
        spread.Lanes(name, len(offer.lanes), fast.get(name, 1.0), loads.get(name, 0.0))
        for name, offer in zip(names, offers, strict=True)
    ]


def taken_back(
    ctx: Context, prepared: PreparedSweep, known: Mapping[str, RunRecord], offers: Sequence[SiteSlots]
) -> dict[str, str]:
    """Cells that wait, withdrawn from boxes that would be done much later than need be, and their better sites.

    Only what its box let go of is among them.
    """
    at = {offer.box.site.name: offer for offer in offers}
    views = refresh(ctx, known.values())
    waiting = {
        run: view.record.site_name
        for run, view in views.items()
        if view.status.state is State.QUEUED and view.reach.ok and view.record.queue and view.record.site_name in at
    }
    records = [view.record for view in views.values()]
    running = {run: seconds for run, view in views.items() if (seconds := _will_take_s(view.status)) is not None}
    costs, learned = costs_of(records, {record.id: wanted_of(record) for record in records}, running)
    loads: dict[str, float] = {}
    for run, view in views.items():
        if view.status.state.is_alive and run not in waiting:
            done = (view.status.percentage or 0.0) / 100.0
            site = view.record.site_name
            loads[site] = loads.get(site, 0.0) + costs[run] * (1.0 - done)
    boxes = lanes_of(offers, learned, loads)
    ours = {run: costs[run] for run in waiting}
    better = spread.place(ours, boxes)
    if spread.makespan(ours, better, boxes) > MUCH_SOONER * spread.makespan(ours, waiting, boxes):
        return {}
    taken: dict[str, str] = {}
    for site in dict.fromkeys(waiting.values()):
        moving = [run for run in waiting if waiting[run] == site and better[run] != site]
        try:
            gone = withdraw(ctx, at[site].box, prepared.name, moving, "move") if moving else []
            taken.update((run, better[run]) for run in gone)
        except WorldError as error:
            ctx.say(f"{site}: {error.message}")  # what it did not let go of stays there
    return taken


def _will_take_s(status: Status) -> float | None:
    """How long a living cell will have taken from its start, by its own pace; None where that does not show yet."""
    done = (status.percentage or 0.0) / 100.0
    if status.remaining_s is None or not status.state.is_alive or not LEAST_DONE <= done < 1.0:
        return None
    return status.remaining_s / (1.0 - done)


def by_site(placed: Mapping[str, str]) -> dict[str, list[str]]:
    """The cells of each site, in their order."""
    found: dict[str, list[str]] = {}
    for cell, site in placed.items():
        found.setdefault(site, []).append(cell)
    return found
