"""`reconcile --repair`: cells asked for again with the very same specification, here or on another box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sojourn.core import spread
from sojourn.core.fold import Status
from sojourn.core.need import Need
from sojourn.core.values import NoAnswer, Site
from sojourn.store.job.read import read_job
from sojourn.store.job.values import JobFile
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.launch import preflight
from sojourn.verbs.launch.launch import read_secrets
from sojourn.verbs.launch.prepare import Trees, on_site, read_trees
from sojourn.verbs.launch.sending import sends
from sojourn.verbs.observe import scheduled
from sojourn.verbs.observe.costs import costs_of, wanted_of
from sojourn.verbs.sweep import twins
from sojourn.verbs.sweep.batch import Batch, CellRequest
from sojourn.verbs.sweep.cells import shared
from sojourn.verbs.sweep.enqueue import enqueue, proven
from sojourn.verbs.sweep.fate import FAILED, MISSING, NEVER, UNKNOWN, WAITING, Fate, is_own_error
from sojourn.verbs.sweep.placing import lanes_of
from sojourn.verbs.sweep.slots import Oversubscribed, SiteSlots, ask_sites, box_beside, lanes, with_box
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


class StillThere(Misuse):
    """{site} answers: nothing on it needs to be abandoned. Nothing was changed."""

    code = "still-there"
    next_step = "sojourn reconcile {sweep} --repair"


class NoSuchPart(Misuse):
    """No cell of {sweep} is on a site called {site!r}."""

    code = "no-such-part"
    next_step = "sojourn status {sweep}"


def mend(
    ctx: Context, sweep: str, fates: Sequence[Fate], abandon: frozenset[str], sites: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """(the cells asked for again, remarks). Raises: StillThere, NoSuchPart, SecretMissing, WorldError."""
    _check(sweep, fates, abandon)
    recalled = recall(ctx, sweep)
    here, moving, own = [], [], []
    for one in fates:
        view, record = one.view, one.view.record
        is_lost = one.what == UNKNOWN and record.site_name in abandon
        was_let_go = one.what in (MISSING, NEVER) and not _is_open(ctx, record)
        if is_lost or was_let_go:
            moving.append(record)
        elif one.what == FAILED and is_own_error(one):
            own.append(record.id)
        elif one.what in (FAILED, NEVER) and view.reach.ok is not False and not view.is_other:
            here.append(record)
        elif one.what == MISSING and view.reach.ok and not view.has_root:
            moving.append(record)  # its box answers and has lost it: any box of the sweep will do
    if abandon:
        for site in sorted(abandon):
            given = [record for record in moving if record.site_name == site]
            what = [twins.given_up(record, ctx.now_s()) for record in given]
            ctx.store.append("given-up", sweep=sweep, site=site, runs=[record.id for record in given], what=what)
            recalled += what
    if own:
        recalled.append(_left_alone(sweep, own))
    if not here and not moving:
        return (), recalled
    offers, remarks, trees = _offers(ctx, sweep, fates, [*here, *moving], abandon, sites)
    done: list[str] = []
    known = {one.view.record.site_name for one in fates}
    placed, more = _placed(fates, moving, offers)
    remarks = [*recalled, *remarks, *more]
    _plan_again(ctx, sweep, [record for record in moving if record.id in placed], placed, offers)
    for name, offer in offers.items():
        ours = [record for record in here if record.site_name == name]
        asked = [_again(record) for record in ours]
        asked += [CellRequest(_fresh(ctx, record.id).run.spec) for record in moving if placed.get(record.id) == name]
        if not asked:
            continue
        try:
            remarks += _ask(ctx, sweep, offer, asked, trees, is_new=name not in known)
            done += [cell.run for cell in asked]
        except WorldError as error:
            remarks.append(f"{name}: its {len(asked)} cells are not queued again: {error.message}")
    first = {_fresh(ctx, run).site_name: run for run in done}
    return tuple(done), [*remarks, *proven(ctx, list(first.values()))]


def _left_alone(sweep: str, own: Sequence[str]) -> str:
    some = ", ".join(own[:3]) + (" and more" if len(own) > 3 else "")
    what = f"{len(own)} cell{'' if len(own) == 1 else 's'} failed by an error of the program itself ({some}); unchanged"
    return f"{what}, it would fail again: mend the code, then `sojourn sweep FILE --with-code new`"


def _again(record: RunRecord) -> CellRequest:
    attempt = max(record.attempt, record.heard.attempt + 1)
    return CellRequest(record.run.spec, attempt, is_recoded=bool(record.run.earlier))


def recall(ctx: Context, sweep: str) -> list[str]:
    """Tell a box that was given up and answers again not to start cells placed elsewhere, unless it has come further
    with them than the copies. Returns remarks.
    """
    remarks: list[str] = []
    by_site: dict[str, dict[str, Any]] = {}
    sites = {}
    for run, site, handle in ctx.store.index.earlier(sweep):
        by_site.setdefault(site.name, {})[run] = handle
        sites[site.name] = site
    for name, known in by_site.items():
        box, runs = ctx.box(sites[name]), list(known)
        try:
            there = twins.begun_there(ctx, sites[name], runs)
            if isinstance(there, NoAnswer):
                continue
            ahead = {run: remark for run in runs if (remark := _is_ahead(ctx, name, run, there.get(run)))}
            remarks += ahead.values()
            known = {run: handle for run, handle in known.items() if run not in ahead}
            runs = list(known)
            if box.scheduler:
                runs = scheduled.recalled(box, known)
            answer = box.ask("withdraw", queue=sweep, runs=runs, why="move")
        except WorldError as error:
            remarks.append(f"{name}: {error.message}")
            continue
        if not isinstance(answer, NoAnswer) and answer.value["taken"]:
            ctx.say(f"{name}: {len(answer.value['taken'])} cells that are elsewhere now will not be started there")
    return remarks


def _is_ahead(ctx: Context, site: str, run: str, original: Status | None) -> str:
    """The remark about a cell that has come further on a box it has left; "" where its copy has come as far."""
    copy = _fresh(ctx, run)
    if original is None or twins.reached(original) <= twins.reached(copy.heard):
        return ""
    both = (twins.in_words(status, ctx.now_s()) for status in (original, copy.heard))
    return "{}: {} answers again with more progress ({}) than its copy on {} has ({}): neither is cancelled".format(
        run, site, next(both), copy.site_name, next(both)
    )


def _check(sweep: str, fates: Sequence[Fate], abandon: frozenset[str]) -> None:
    for site in sorted(abandon):
        there = [one for one in fates if one.view.record.site_name == site]
        if not there:
            raise NoSuchPart(sweep=sweep, site=site)
        if any(one.view.reach.ok for one in there):
            raise StillThere(site=site, sweep=sweep)


def _is_open(ctx: Context, record: RunRecord) -> bool:
    lease = ctx.store.index.lease(record.lease) if record.lease else None
    return lease is None or lease.is_open


def _fresh(ctx: Context, run: str) -> RunRecord:
    return ctx.store.index.find(run)


def _offers(
    ctx: Context,
    sweep: str,
    fates: Sequence[Fate],
    cells: Sequence[RunRecord],
    abandon: frozenset[str],
    more_sites: Sequence[str],
) -> tuple[dict[str, SiteSlots], list[str], Trees | None]:
    """The boxes that may take cells now, by site, why others may not, and the code where it is the same here still."""
    known: dict[str, Site] = {one.view.record.site_name: one.view.record.site for one in fates}
    known |= {name: ctx.site(name) for name in more_sites if name not in known}
    gone = {one.view.record.site_name for one in fates if not _is_open(ctx, one.view.record)} - set(more_sites)
    asked = [site for name, site in known.items() if name not in abandon and name not in gone]
    digests = list(dict.fromkeys(name for record in cells for name in _digests(record)))
    offers, remarks = {}, []
    ours = [one.view.record for one in fates]
    job, trees = _code(ctx, cells[0], digests)
    for offer in ask_sites(ctx, [box_beside(ctx, site, ours) for site in asked], sweep, digests):
        name = offer.box.site.name
        if offer.error is not None:
            remarks.append(f"{name} takes no cells: {offer.error.message}")
            continue
        lacks = [digest for digest in digests if digest in offer.lacking]
        if lacks and trees is None:
            remarks.append(f"{name} takes no cells: it lacks the code, and the code here has changed")
            continue
        need = job.need if job is not None else Need()
        if offer.box.scheduler:
            offers[name] = replace(offer, lanes=("",) * len(cells))
            continue
        try:
            offers[name] = replace(offer, lanes=lanes(name, offer.hello, need, envs=cells[0].run.spec.get("envs")))
        except Oversubscribed as no:
            remarks.append(f"{name} takes no cells: {no.message}")
    return offers, remarks, trees


def _digests(record: RunRecord) -> list[str]:
    spec = record.run.spec
    return [str(spec["code"]), *(str(digest).partition("/")[0] for digest in (spec.get("mounts") or {}).values())]


def _code(ctx: Context, record: RunRecord, digests: Sequence[str]) -> tuple[JobFile | None, Trees | None]:
    """The job and its code as they are here now; the code None where it is not what the cells were planned with."""
    try:
        job = read_job(str(record.local.get("job_file")))
        trees = read_trees(ctx, job)
    except Misuse:
        return None, None
    return job, trees if {tree.digest for _, tree in trees.trees} >= set(digests) else None


def _placed(
    fates: Sequence[Fate], moving: Sequence[RunRecord], offers: Mapping[str, SiteSlots]
) -> tuple[dict[str, str], list[str]]:
    """The new site of each cell that leaves its box, by what is to be done on each already."""
    if not moving:
        return {}, []
    if not offers:
        return {}, [f"{len(moving)} cells have no box; name one with --sites"]
    records = [one.view.record for one in fates]
    costs, fast = costs_of(records, {record.id: wanted_of(record) for record in records})
    loads: dict[str, float] = {}
    for one in fates:
        if one.view.status.state.is_alive or one.what == WAITING:
            site = one.view.record.site_name
            loads[site] = loads.get(site, 0.0) + costs[one.id]
    boxes = lanes_of(list(offers.values()), fast, loads)
    return spread.place({record.id: costs[record.id] for record in moving}, boxes), []


def _plan_again(
    ctx: Context,
    sweep: str,
    cells: Sequence[RunRecord],
    placed: Mapping[str, str],
    offers: Mapping[str, SiteSlots],
) -> None:
    """Journal the new place of cells that leave their box: the same specification, what their first box had is lost."""
    if not cells:
        return
    order = {cell: n for n, cell in enumerate(placed)}
    cells = sorted(cells, key=lambda record: order[record.id])
    specs: list[Spec] = []
    for record in cells:
        box = offers[placed[record.id]].box
        budget = record.local.get("budget")
        job = JobFile("", record.id, "", "", budget=(int(budget[0]), str(budget[1])) if budget else None)
        there = on_site(job, box.priced, keeper=box.keeper.file, train=box.keeper.train_file, now_s=ctx.now_s())
        specs.append({**record.run.spec, **there})
    template, rest = shared(specs)
    ctx.store.append(
        "swept",
        sweep=sweep,
        template=template,
        cells=[
            {"site": placed[record.id], "spec": spec, "local": record.local, "again": True}
            for record, spec in zip(cells, rest, strict=True)
        ],
        sites={name: asdict(offer.box.site) for name, offer in offers.items()},
        job_file=str(cells[0].local.get("job_file", "")),
        workdir=str(cells[0].local.get("workdir", "")),
    )


def _ask(
    ctx: Context, sweep: str, offer: SiteSlots, asked: Sequence[CellRequest], trees: Trees | None, *, is_new: bool
) -> tuple[str, ...]:
    rows: list[tuple[str, Any]] = list(trees.trees) if trees is not None else []
    room = preflight.room(rows, offer.lacking, packs=not sends(offer.box))
    found = preflight.check_need(offer.hello, Need(), preflight.room_for_cells(room, len(asked)))
    found = with_box(offer, found, asked[0].spec.get("envs") or {}, wants_cards=False)
    if not replace(offer, findings=found).is_usable:
        raise WorldError(detail=found[0].title)
    slots = offer if is_new else replace(offer, lanes=())  # a queue that is there keeps its slots
    return enqueue(ctx, Batch(sweep, slots, asked, trees=rows, secrets=read_secrets(ctx, asked[0].spec)))
