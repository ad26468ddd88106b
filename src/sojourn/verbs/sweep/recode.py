"""`sweep --with-code new`: cells that ended without success run again with the code as it is now, as the same cells.

What has succeeded stays, with the code that made it; what runs goes on with the code that it began with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.launch.launch import read_secrets
from sojourn.verbs.launch.recode import refused, respec
from sojourn.verbs.launch.rosters import remember
from sojourn.verbs.launch.stop import withdraw
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.sweep.batch import Batch, CellRequest
from sojourn.verbs.sweep.cells import PreparedSweep
from sojourn.verbs.sweep.enqueue import enqueue
from sojourn.verbs.sweep.slots import SiteSlots, ask_sites, box_beside
from sojourn.wire.errors import WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


@dataclass(frozen=True)
class Again:
    """What came of it. `cells`: those that were asked for again; `exit_status`: of the worst site."""

    cells: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    exit_status: int = 0


def changed(prepared: PreparedSweep, known: Mapping[str, RunRecord]) -> dict[str, tuple[str, ...]]:
    """Of each known cell that is not as the job file has it now, what of it may not change; () = it may run again."""
    cells = {cell.id: cell.spec for cell in prepared.cells if cell.id in known}
    return {
        run: refused(known[run].run.spec, spec)
        for run, spec in cells.items()
        if known[run].run.spec.get("identity") != spec["identity"]
    }


def run_again(ctx: Context, prepared: PreparedSweep, cells: Sequence[str], *, dry_run: bool) -> Again:
    """Ask again for those of these cells that ended without success, each on the box where it is; what waits and was
    never begun is taken from its queue, to be placed with the new cells.

    Journaled before anything is asked of a box; a box that fails is a remark, and the identical call goes on there.
    """
    views = refresh(ctx, [record for record in map(ctx.store.index.run, cells) if record is not None])
    those = [view for view in views.values() if _is_due(view)]
    waiting = [view for view in views.values() if _may_be_placed_anew(view)]
    if dry_run:
        return Again(tuple(view.record.id for view in (*those, *waiting)), tuple(_remarks(views, ())))
    taken = _taken(ctx, prepared.name, waiting)
    remarks = _remarks(views, taken)
    if not those:
        return Again(tuple(taken), tuple(remarks))
    new = {cell.id: cell.spec for cell in prepared.cells}
    secrets = read_secrets(ctx, {"secrets": prepared.job.secrets})
    digests = [tree.digest for _, tree in prepared.tree.trees]
    records = [view.record for view in those]
    sites = {record.site_name: record.site for record in records}
    done: list[str] = [*taken]
    exit_status = 0
    for offer in ask_sites(ctx, [box_beside(ctx, site, records) for site in sites.values()], prepared.name, digests):
        name = offer.box.site.name
        ours = [view for view in those if view.record.site_name == name]
        try:
            if offer.error is not None:
                raise offer.error
            specs = [
                respec(v.record.run.spec, new[v.record.id], keeper=offer.box.keeper.file, train=_train(offer))
                for v in ours
            ]
            remarks += _ask(ctx, prepared, offer, ours, specs, secrets) if ours else []
            done += [view.record.id for view in ours]
        except WorldError as error:
            remarks.append(f"{name}: its {len(ours)} cells are not queued again yet: {error.message}")
            exit_status = max(exit_status, error.exit_status)
    remember(prepared.tree.code)
    return Again(tuple(done), tuple(remarks), exit_status)


def _is_due(view: RunView) -> bool:
    return view.status.state.is_dead and view.reach.ok is not False and not view.is_other


def _may_be_placed_anew(view: RunView) -> bool:
    is_new = view.status.state is State.QUEUED and not view.record.heard.attempt
    return is_new and bool(view.record.queue) and bool(view.reach.ok)


def _taken(ctx: Context, sweep: str, waiting: Sequence[RunView]) -> list[str]:
    """The cells that their queues let go of: nothing of them was begun, nor will be from there."""
    found: list[str] = []
    for machine in dict.fromkeys(view.record.machine for view in waiting):
        here = [view.record for view in waiting if view.record.machine == machine]
        try:
            found += withdraw(ctx, ctx.box(here[0].site, here[0].lease), sweep, [one.id for one in here], "move")
        except WorldError as error:
            ctx.say(f"{machine}: {error.message}")  # what it did not let go of runs with the code before
    return found


def _remarks(views: Mapping[str, RunView], taken: Collection[str]) -> list[str]:
    states = [view.status.state for run, view in views.items() if run not in taken]
    alive, stopped = sum(state.is_alive for state in states), states.count(State.CANCELLED)
    told = [f"{alive} cells run, or wait, with the code that they were queued with"] if alive else []
    if stopped:
        told.append(f"{stopped} cells were stopped and stay so; `sojourn resume` starts them again")
    return told


def _train(offer: SiteSlots) -> str:
    return str(offer.box.keeper.train_file)


def _ask(
    ctx: Context,
    prepared: PreparedSweep,
    offer: SiteSlots,
    views: Sequence[RunView],
    specs: Sequence[Spec],
    secrets: Mapping[str, str],
) -> tuple[str, ...]:
    asked = [
        CellRequest(spec, max(view.record.attempt, view.record.heard.attempt + 1), is_recoded=True)
        for view, spec in zip(views, specs, strict=True)
    ]
    slots = replace(offer, lanes=())  # its queue keeps its slots
    return enqueue(ctx, Batch(prepared.name, slots, asked, prepared.job.need, prepared.tree.trees, secrets))
