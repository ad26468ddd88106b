"""`sweep`: every cell named, refused or placed before anything runs; then each box has its part in a queue of its own.

The identical `sweep` again is a no-op, or goes on where it was cut off; with new cells in the job file only these come.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sojourn.core import spread
from sojourn.core.sweep import Cell, Collision, Sweep
from sojourn.core.values import Finding, State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context
from sojourn.verbs.launch.bidding import excluded_by_rule
from sojourn.verbs.launch.decide import differing
from sojourn.verbs.launch.launch import read_secrets
from sojourn.verbs.launch.prepare import refuse_there
from sojourn.verbs.launch.recode import refused
from sojourn.verbs.launch.renting import reopen
from sojourn.verbs.launch.rosters import remember
from sojourn.verbs.observe.costs import costs_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.sweep.batch import Batch, CellRequest
from sojourn.verbs.sweep.cells import PreparedCell, PreparedSweep, prepare_sweep, shared, with_share
from sojourn.verbs.sweep.enqueue import enqueue, proven
from sojourn.verbs.sweep.placing import by_site, placed_on, taken_back
from sojourn.verbs.sweep.recode import Again, changed, run_again
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.slots import BLOCKED, NoArrays, Oversubscribed, SiteSlots, ask_sites, box_beside, lanes
from sojourn.wire import quote
from sojourn.wire.errors import Misuse, WorldError

# Journaled, and perhaps not on its box: the client was cut off between.
UNPLACED = ("planned", "queueing")


class SweepTaken(Misuse):
    """The sweep {sweep} cannot start: {why}. Nothing was changed."""

    code = "sweep-taken"
    next_step = "{following}"


@dataclass(frozen=True)
class Part:
    """What one box gets of a sweep. `slots`: cells at once; `load`: expected cost of its new cells, of no unit."""

    site: str
    cells: tuple[str, ...]
    slots: int
    gpus: tuple[str, ...] = ()
    load: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """One element of `sites`."""
        return document(self)


@dataclass(frozen=True)
class Swept:
    """What `sweep` came to. `did`: queued, nothing, planned (only said what it would do) or blocked."""

    id: str
    did: str
    why: str
    cells: int
    new: tuple[str, ...]
    sites: tuple[Part, ...]
    next: str
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    seconds: float = 0.0
    exit_status: int = 0
    again: tuple[str, ...] = ()  # cells that ended without success, or waited, and get the code as it is now

    def as_json(self) -> dict[str, Any]:
        """The `sweep` document."""
        sites = [part.as_json() for part in self.sites]
        return document(self, "sweep", without=("sites", "exit_status"), sites=sites, exit=self.exit_status)


def sweep(ctx: Context, asked: SweepRequest, *, dry_run: bool = False) -> Swept:
    """Place the cells of a job's sweep on sites and queue them there; comes back when each queue is kept.

    Of several sites those that do not answer or lack something are left out, with a remark. `dry_run`: starts nothing.
    Raises: Misuse (bad-cells, sweep-taken, collision, budget-shared, oversubscribed, ...), Unreachable, WorldError
    where no site is left; a site that fails half way is a remark, and the identical call goes on with it.
    """
    began_s = ctx.now_s()
    prepared = prepare_sweep(ctx, asked)
    again = quote.join(["sojourn", "sweep", *prepared.given, *asked.flags])
    with ctx.alone(f"sweep {prepared.name}"):
        known = _known(ctx, prepared, may_differ=asked.new_code)
        redone = Again()
        if asked.new_code:
            redone = run_again(ctx, prepared, list(changed(prepared, known)), dry_run=dry_run)
            known = _known(ctx, prepared, may_differ=True)
        new = [cell for cell in prepared.cells if cell.id not in known or known[cell.id].phase == "moving"]
        cut_off = [cell for cell in prepared.cells if cell.id in known and known[cell.id].phase in UNPLACED]
        if not new and not cut_off and asked.new_code:
            return _only_again(prepared, redone, again, ctx.now_s() - began_s, is_dry=dry_run)
        if not new and not cut_off and not asked.balance:
            unused = ("--slots has no effect: there are no new cells",) if asked.slots else ()
            return _nothing(ctx, prepared, known, began_s, unused)
        offers, remarks = _offers(ctx, prepared, known, cut_off, asked)
        fixed = {cell.id: known[cell.id].site_name for cell in cut_off}
        if asked.balance and not dry_run:
            taken = taken_back(ctx, prepared, known, offers)
            known = _known(ctx, prepared, may_differ=asked.new_code)
            new = [cell for cell in prepared.cells if cell.id not in known or known[cell.id].phase == "moving"]
            if not new and not cut_off:
                return _nothing(ctx, prepared, known, began_s)
            fixed |= taken
            remarks += [f"{len(taken)} waiting cells were placed again"] if taken else []
        prepared = with_share(prepared, known, new)
        placed, offers, findings = placed_on(prepared, known, new, fixed, offers)
        parts = _parts(prepared, known, new, placed, offers)
        answer = Swept(
            id=prepared.name,
            did="queued",
            why="",
            cells=len(prepared.cells),
            new=tuple(cell.id for cell in new),
            sites=parts,
            next=f"sojourn status {prepared.name}",
            findings=findings,
            remarks=(*prepared.job.warnings, *redone.remarks, *remarks),
            again=redone.cells,
        )
        if findings:
            why = "nothing was started"
            return replace(answer, did="blocked", why=why, next="sojourn doctor", exit_status=BLOCKED)
        _disjoint(prepared, known, placed, offers)
        if dry_run:
            return replace(answer, did="planned", why="nothing was changed", next=again)
        done = _queue(ctx, prepared, new, placed, offers)
    seen = proven(ctx, [cells[0] for cells in by_site(placed).values() if cells])
    return replace(
        answer,
        why=done.why,
        remarks=(*answer.remarks, *done.remarks, *seen),
        next=answer.next if not done.exit_status else again,
        exit_status=done.exit_status,
        seconds=ctx.now_s() - began_s,
    )


def _known(ctx: Context, prepared: PreparedSweep, *, may_differ: bool = False) -> dict[str, RunRecord]:
    """The cells that are in the records already. `may_differ`: in their code, `run` and `setup`.

    Raises: SweepTaken, before anything is asked of any box.
    """
    records = {record.id: record for record in ctx.store.index.runs()}
    other = "give the job file another name"
    if prepared.name in records:
        raise SweepTaken(sweep=prepared.name, why="a run has this name", following=other)
    for cell in prepared.cells:
        old = records.get(cell.id)
        if old is None:
            continue
        if old.sweep != prepared.name:
            why = f"{cell.id} is the name of a run that is no cell of it"
            raise SweepTaken(sweep=prepared.name, why=why, following=other)
        differs, against = differing(old.run.spec, cell.spec), refused(old.run.spec, cell.spec)
        if against or (differs and not may_differ and old.phase != "moving"):
            why = f"its cell {cell.id} differs in {', '.join(against or differs)}"
            mended = quote.join(["sojourn", "sweep", *prepared.given, "--with-code", "new"])
            raise SweepTaken(sweep=prepared.name, why=why, following=other if against else f"{mended}, or {other}")
    return {record.id: record for record in records.values() if record.sweep == prepared.name}


def _only_again(prepared: PreparedSweep, redone: Again, again: str, seconds: float, *, is_dry: bool) -> Swept:
    """The answer where cells run again and no new one comes."""
    count = len(redone.cells)
    why = f"{count} cell{' runs' if count == 1 else 's run'} again with the code as it is now"
    if not count:
        why = "no cell that ended without success has other code than the job file"
    return Swept(
        id=prepared.name,
        did="nothing" if not count else "planned" if is_dry else "queued",
        why=why,
        cells=len(prepared.cells),
        new=(),
        sites=(),
        next=again if redone.exit_status or (is_dry and count) else f"sojourn status {prepared.name}",
        remarks=(*prepared.job.warnings, *redone.remarks),
        seconds=seconds,
        exit_status=redone.exit_status,
        again=redone.cells,
    )


def _nothing(
    ctx: Context,
    prepared: PreparedSweep,
    known: Mapping[str, RunRecord],
    began_s: float,
    remarks: tuple[str, ...] = (),
) -> Swept:
    views = refresh(ctx, known.values())  # also puts a keeper back to a queue that lost it
    states = [views[cell.id].status.state for cell in prepared.cells]
    alive = sum(state.is_alive for state in states)
    ended = sum(state is State.SUCCEEDED for state in states)
    why = f"all {len(prepared.cells)} cells are placed: {ended} succeeded, {alive} wait or run"
    following = "status" if alive or ended == len(states) else "reconcile"
    return Swept(
        id=prepared.name,
        did="nothing",
        why=why,
        cells=len(prepared.cells),
        new=(),
        sites=(),
        next=f"sojourn {following} {prepared.name}",
        remarks=(*prepared.job.warnings, *remarks),
        seconds=ctx.now_s() - began_s,
    )


def _offers(
    ctx: Context,
    prepared: PreparedSweep,
    known: Mapping[str, RunRecord],
    cut_off: Sequence[PreparedCell],
    asked: SweepRequest,
) -> tuple[list[SiteSlots], list[str]]:
    """What each site offers, in the order of the candidates, and why some offer nothing."""
    slots, oversubscribe = asked.slots, asked.oversubscribe
    names = list(dict.fromkeys(asked.sites or prepared.job.candidates or [prepared.job.site or "local"]))
    excluded = {} if asked.sites else excluded_by_rule(ctx, prepared.job)
    allowed = [name for name in names if name not in excluded] or names
    remarks = [f"{name} is left out: {excluded[name]}" for name in names if name not in allowed]
    earlier = {record.site_name: record.site for record in known.values()}
    here = {name: earlier[name] if name in earlier else ctx.site(name) for name in allowed}
    here |= {known[cell.id].site_name: known[cell.id].site for cell in cut_off}
    offers = []
    living = [r for r in ctx.store.index.runs() if r.sweep != prepared.name and r.attempt and r.status.state.is_alive]
    first: Misuse | WorldError | None = None
    digests = [tree.digest for _, tree in prepared.tree.trees]
    boxes = [box_beside(ctx, site, known.values()) for site in here.values()]
    for box in boxes:
        refuse_there(prepared.job, box)
    for offer in ask_sites(ctx, boxes, prepared.name, digests):
        name, error = offer.box.site.name, offer.error
        try:
            if error is not None:
                raise error
            if slots and offer.box.scheduler and not offer.box.batch:
                raise NoArrays(site=name, slots=slots)
            if offer.box.scheduler:  # it has machines of its own to give, and counts them itself
                offers.append(replace(offer, lanes=("",) * (slots or len(prepared.cells)), limit=slots))
                continue
            if not slots and offer.hello.get("lanes"):
                offers.append(replace(offer, lanes=tuple(offer.hello["lanes"])))
                continue
            envs = {**prepared.job.envs, **{key: "" for cell in prepared.cells for key in cell.cell.values}}
            others = [record for record in living if record.site_name == name]
            need = prepared.job.need
            found = lanes(name, offer.hello, need, slots=slots, oversubscribe=oversubscribe, envs=envs, others=others)
            offers.append(replace(offer, lanes=found))
        except (NoArrays, Oversubscribed, WorldError) as no:
            first = first or no
            remarks.append(f"{name} is left out: {no.message}")
    if not offers and first is not None:
        raise first
    return offers, remarks


def _parts(
    prepared: PreparedSweep,
    known: Mapping[str, RunRecord],
    new: Sequence[PreparedCell],
    placed: Mapping[str, str],
    offers: Sequence[SiteSlots],
) -> tuple[Part, ...]:
    wanted = {cell.id: spread.Wanted(cell.cell.values, cell.cell.epochs) for cell in prepared.cells}
    costs, _ = costs_of(list(known.values()), wanted)
    parts = by_site(placed)
    return tuple(
        Part(
            offer.box.site.name,
            tuple(parts.get(offer.box.site.name, ())),
            len(offer.lanes),
            tuple(lane for lane in offer.lanes if lane),
            round(sum(costs[cell] for cell in parts.get(offer.box.site.name, ())), 3),
        )
        for offer in offers
    )


def _disjoint(
    prepared: PreparedSweep, known: Mapping[str, RunRecord], placed: Mapping[str, str], offers: Sequence[SiteSlots]
) -> None:
    """Raises: Collision, where two cells, or two sites, would write into one place."""
    machines: dict[str, str] = {}
    for offer in offers:
        other = machines.setdefault(offer.machine, offer.box.site.name)
        if other != offer.box.site.name:
            raise Collision(first=f"site {other}", second=f"site {offer.box.site.name}", why="they are the same box")
    at = {offer.box.site.name: offer for offer in offers}
    cells = [
        Cell(cell, at[site].machine, posixpath.join(str(at[site].hello["base"]), "runs", cell))
        for cell, site in placed.items()
    ]
    cells += [
        Cell(record.id, at[record.site_name].machine if record.site_name in at else record.site_name, record.run.root)
        for record in known.values()
        if record.id not in placed and record.run.root
    ]
    Sweep(prepared.name, tuple(cells))


def _queue(
    ctx: Context,
    prepared: PreparedSweep,
    new: Sequence[PreparedCell],
    placed: Mapping[str, str],
    offers: Sequence[SiteSlots],
) -> Swept:
    """Journal the new cells, then give each box its part. A box that fails is a remark: the identical call goes on."""
    secrets = read_secrets(ctx, {"secrets": prepared.job.secrets})
    at = {offer.box.site.name: offer for offer in offers}
    for site in by_site(placed):
        reopen(ctx, at[site].box)
    _journal(ctx, prepared, [cell for cell in new if cell.id in placed], placed, at)
    remember(prepared.tree.code)
    remarks: list[str] = []
    exit_status, queued = 0, 0
    for site, cells in by_site(placed).items():
        offer = at[site]
        records = [record for record in map(ctx.store.index.run, cells) if record is not None]
        asked = [CellRequest(record.run.spec, max(1, record.attempt), bool(record.run.earlier)) for record in records]
        try:
            remarks += enqueue(ctx, Batch(prepared.name, offer, asked, prepared.job.need, prepared.tree.trees, secrets))
            queued += len(cells)
        except WorldError as error:
            remarks.append(f"{site}: its {len(cells)} cells are not queued yet: {error.message}")
            exit_status = max(exit_status, error.exit_status)
    sites = len(by_site(placed))
    why = f"{queued} cell{' is' if queued == 1 else 's are'} queued on {sites} site{'' if sites == 1 else 's'}"
    return Swept(prepared.name, "queued", why, 0, (), (), "", remarks=tuple(remarks), exit_status=exit_status)


def _journal(
    ctx: Context,
    prepared: PreparedSweep,
    new: Sequence[PreparedCell],
    placed: Mapping[str, str],
    at: Mapping[str, SiteSlots],
) -> None:
    """One record for all of them: the sweep is known whole, or not at all."""
    if not new:
        return
    order = {cell: n for n, cell in enumerate(placed)}
    new = sorted(new, key=lambda cell: order[cell.id])
    now_s = ctx.now_s()
    on_site = {
        site: prepared.on_site(
            offer.box.priced, keeper=offer.box.keeper.file, train=offer.box.keeper.train_file, now_s=now_s
        )
        for site, offer in at.items()
    }
    template, rest = shared([{**cell.spec, **on_site[placed[cell.id]]} for cell in new])
    ctx.store.append(
        "swept",
        sweep=prepared.name,
        template=template,
        cells=[
            {"site": placed[cell.id], "spec": spec, "local": cell.local()} for cell, spec in zip(new, rest, strict=True)
        ],
        sites={site: asdict(offer.box.site) for site, offer in at.items()},
        job_file=prepared.job.path,
        workdir=prepared.job.workdir,
        local=prepared.local(),
    )
