"""Where a run goes: the sites it may run on are asked in turn what they have, and what `run` would do there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Finding, Site
from sojourn.store.job.values import JobFile
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import worst
from sojourn.verbs.context import Box, Context, NoSuchBackend, provider_of, unrented
from sojourn.verbs.launch import boxcheck, preflight
from sojourn.verbs.launch.asking import box_of_today
from sojourn.verbs.launch.decide import Decision, decide
from sojourn.verbs.launch.prepare import Prepared, refuse_there
from sojourn.verbs.launch.push import ask_missing
from sojourn.verbs.launch.revise import or_replaced
from sojourn.verbs.launch.sending import sends
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.rent.machine import is_idle_there, is_to_rent, rented
from sojourn.verbs.rent.obtain import RENT, best, held, obtain
from sojourn.verbs.rent.price import Wish
from sojourn.wire import quote
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

BLOCKED = 11
STARTING = ("new", "replace", "continue", "again")


class NotHere(Misuse):
    """{run} cannot continue: {why}. Nothing was changed."""

    code = "not-here"
    next_step = "{following}"


class OneMachine(Misuse):
    """{site} has one machine: only a site whose provider rents machines can have another."""

    code = "one-machine"
    next_step = "sojourn run"


@dataclass(frozen=True)
class Bid:
    """One site that a job may run on, as just asked: what is there, what `run` would do, what speaks against it."""

    box: Box
    view: RunView | None
    decision: Decision
    hello: Hello | None  # None: nothing had to be asked
    findings: tuple[Finding, ...] = ()
    lacking: frozenset[str] = frozenset()  # snapshots of the job that the box does not have, and the training side
    is_to_rent: bool = False  # its machine is not there yet
    offer: Offer | None = None  # what would be rented, where that was chosen already


def best_bid(ctx: Context, prepared: Prepared, site: str, wish: Wish, *, may_rent: bool = False) -> Bid:
    """The site named; else where the run already is; else the first candidate that answers and has what is needed.

    Where none does, the first one's trouble. A machine is rented for it only where it `may_rent`, and then no other
    candidate is tried: a run never costs two machines.   Raises: Misuse, Unreachable, WorldError.
    """
    known = ctx.store.index.run(prepared.id)
    view = refresh_one(ctx, known) if known is not None and known.attempt and not _never_was(ctx, known) else None
    names = [site] if site else list(prepared.job.candidates) or [prepared.job.site or "local"]
    need = replace(wish.need, run_s=prepared.job.max_duration_s or 0.0)
    wish = replace(wish, need=need, most=prepared.job.max_price, run_s=prepared.job.max_duration_s)
    excluded = {} if site else excluded_by_rule(ctx, prepared.job)
    if view is not None and not site and view.record.site_name in names and not view.record.has_vanished:
        _stays(ctx, prepared, view, excluded, names)
        names = [view.record.site_name]
    for one in [name for name in names if name in excluded and len(names) > 1]:
        ctx.say(f"{one}: left out, because {excluded[one]}")
        names.remove(one)
    first: Bid | Misuse | WorldError | None = None
    for one in names:
        try:
            if one == RENT:
                bid = _somewhere(ctx, prepared, view, wish, may_rent)
            else:
                bid = _bid(ctx, prepared, ctx.site(one), view, replace(wish, lease=ctx.lease_named(one)), may_rent)
        except (NoSuchBackend, WorldError) as error:
            is_paid = isinstance(error, WorldError) and _is_paid(ctx, one)
            if len(names) == 1 or is_paid:
                raise
            ctx.say(f"{one}: {error.message}")
            first = first or error
            continue
        if worst(bid.findings) != BLOCKED or is_idle_there(ctx, bid.box.site):
            return bid
        first = first or bid
    if isinstance(first, Bid):
        return first
    assert first is not None  # there is at least one name
    raise first


def _is_paid(ctx: Context, name: str) -> bool:
    """A machine of it costs money, and no run was ever on it: no second one is rented beside it."""
    if name == RENT:
        there = held(ctx, Wish(another=True))
        return there is not None
    return is_idle_there(ctx, ctx.site(name))


def _somewhere(ctx: Context, prepared: Prepared, view: RunView | None, wish: Wish, may_rent: bool) -> Bid:
    """The bid of `site: rent`: where the run is, else on a machine that is rented and idle, else on the best offer."""
    if view is not None and not view.record.has_vanished:
        return _bid(ctx, prepared, ctx.site(view.record.site_name), view, wish, may_rent)
    there = held(ctx, wish)
    if may_rent:
        site, name = obtain(ctx, wish)
    elif there is not None:
        site, name = ctx.site(there.lease.site), there.name
    else:
        site, offer = best(ctx, wish)[0]
        decision = decide(view, prepared.spec, site.name, ctx.store.index.first_attempt(prepared.id))
        return Bid(unrented(site), view, decision, None, is_to_rent=True, offer=offer)
    return _bid(ctx, prepared, site, view, replace(wish, lease=name, waits=False), may_rent)


def excluded_by_rule(ctx: Context, job: JobFile) -> dict[str, str]:
    """Sites on which the newest run of this job file ended by a rule of its own that excludes the site, and why."""
    if not any(rule.action == "exclude-site" for rule in job.rules):
        return {}
    found: dict[str, tuple[float, str]] = {}
    for record in ctx.store.index.runs():
        last = record.heard.ends[-1] if record.heard.ends else {}
        newest = found.get(record.site_name, (0.0, ""))[0]
        if record.local.get("job_file") == job.path and last and record.planned_s >= newest:
            is_excluded = last.get("action") == "exclude-site"
            why = f"{record.id} ended there by your rule {last.get('rule')}" if is_excluded else ""
            found[record.site_name] = (record.planned_s, why)
    return {site: why for site, (_, why) in found.items() if why}


def _stays(ctx: Context, prepared: Prepared, view: RunView, excluded: Mapping[str, str], names: Sequence[str]) -> None:
    """A run stays where its checkpoints are. Raises: NotHere where its own rule excludes that site and there is another
    one."""
    last = view.status.ends[-1] if view.status.ends else {}
    others = [name for name in names if name not in excluded]
    if view.status.state.is_dead and last.get("action") == "exclude-site" and others:
        why = f"your rule {last.get('rule')} excludes {view.record.site_name}, and its checkpoints are there"
        raise NotHere(run=prepared.id, why=why, following=under_another_name(prepared, others[0]))


def _never_was(ctx: Context, record: RunRecord) -> bool:
    """It was to start on a machine that was released before it did."""
    lease = ctx.store.index.lease(record.lease)
    has_begun = record.heard.attempt > 0 or not record.lease
    return not has_begun and lease is not None and not lease.is_open and bool(lease.lease.token)


def _bid(ctx: Context, prepared: Prepared, site: Site, view: RunView | None, wish: Wish, may_rent: bool) -> Bid:
    decision = decide(view, prepared.spec, site.name, ctx.store.index.first_attempt(prepared.id))
    decision = or_replaced(ctx, view, decision)
    rents = provider_of(site).rents
    if wish.another and not rents:
        raise OneMachine(site=site.name)
    if view is not None and decision.do not in ("replace", "again") and view.record.site_name == site.name:
        box = box_of_today(ctx, site, view.record)
    elif may_rent and rents and decision.do in STARTING:
        if wish.waits and is_to_rent(ctx, site, wish):
            wish = replace(wish, lease=obtain(ctx, wish, [site])[1])
        box = rented(ctx, site, wish)
    elif decision.do in STARTING and is_to_rent(ctx, site, wish):
        return Bid(unrented(site), view, decision, None, is_to_rent=True)
    else:
        box = ctx.box(site)
    if decision.do in ("nothing", "refuse", "unknown", "adopt"):
        return Bid(box, view, decision, None)
    job = prepared.job
    if job.after and not box.scheduler:
        from sojourn.verbs.launch.after import are_done

        job = replace(job, after=()) if are_done(ctx, job.after) else job
    refuse_there(job, box)
    if job.after:
        from sojourn.verbs.launch.after import awaited

        awaited(ctx, prepared.spec, site.name)
    trains = {"op": "have", "kind": "train", "names": [box.keeper.train_file]}
    have = ask_missing([tree.digest for _, tree in prepared.trees])
    asks: list[Mapping[str, Any]] = [{"op": "hello", "run": prepared.id}, have, trains]
    if box.is_blind:
        hello, *lacks = box.answer_all(asks)
        names = frozenset(name for answer in lacks for name in answer.value["missing"])
        return Bid(box, view, decision, cast("Hello", hello.value), (), names)
    boxcheck.get_ready()
    hello, *lacks, looked = box.answer_all([*asks, boxcheck.asked()])
    lacking = frozenset(name for answer in lacks for name in answer.value["missing"])
    # What runs elsewhere does not have to fit here: the scheduler finds a machine for it, or says that there is none.
    facts = cast("Hello", hello.value)
    findings = preflight.check_need(facts, Need() if box.scheduler else prepared.need, room_of(prepared, box, lacking))
    wants_cards = bool(prepared.need.accelerators)
    found = boxcheck.beside(findings, box, looked.value, prepared.job.envs, wants_cards=wants_cards)
    return Bid(box, view, decision, facts, found, lacking)


def room_of(prepared: Prepared, box: Box, lacking: Set[str]) -> preflight.Room:
    """What this job takes on a box that lacks these snapshots."""
    return preflight.room(prepared.trees, lacking, packs=not sends(box))


def under_another_name(prepared: Prepared, site: str) -> str:
    """The command that starts the same job there under a name like its own that is not taken here."""
    return quote.join(["sojourn", "run", *elsewhere(prepared, site), "--new", *prepared.given])


def elsewhere(prepared: Prepared, site: str) -> tuple[str, ...]:
    """The words that name the site, where the job file does not."""
    return () if site == (prepared.job.site or "local") else ("--site", site)
