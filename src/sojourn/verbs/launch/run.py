"""`run`: from a job file to a process proven alive. Every step may be cut off; the identical `run` goes on there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from sojourn.core.need import Need
from sojourn.core.values import Finding, Site
from sojourn.store.job.values import JobFile
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Launch, worst
from sojourn.verbs.context import Box, Context, NoSuchBackend, provider_of, unrented
from sojourn.verbs.launch import boxcheck, launch, preflight, rates
from sojourn.verbs.launch.decide import Decision, decide
from sojourn.verbs.launch.prepare import Prepared, prepare, refuse_there
from sojourn.verbs.launch.price import Wish
from sojourn.verbs.launch.push import ask_missing, changed_files, push, remember
from sojourn.verbs.launch.renting import is_idle_there, is_to_rent, rented, reopen
from sojourn.verbs.observe.refresh import not_refreshed, refresh_one
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.project.foresight import foresee
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

BLOCKED = 11


class NameTaken(Misuse):
    """The name {run} belongs to a run with a different specification: {differs}. Nothing was changed."""

    code = "name-taken"
    next_step = "{following}"


class StoppedByUser(Misuse):
    """{run} was stopped; running it again does not undo that."""

    code = "stopped"
    next_step = "sojourn resume {run}"


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


def run(
    ctx: Context,
    file: str = "",
    *,
    command: Sequence[str] = (),
    site: str = "",
    name: str = "",
    env: Mapping[str, str] | None = None,
    another: bool = False,
    new: bool = False,
    wait_s: float = 60.0,
    yes: bool = False,
) -> Launch:
    """Start the job, or see that it is started; comes back when its process is proven alive or has ended.

    The identical call is a no-op while the run lives or has succeeded, puts a keeper back where only the process is
    left, and starts the next attempt where it is dead. Blocks for `wait_s` at most after the start (a long `setup`
    goes on without us). `file`: "" = ./sojourn.yaml; `command`: in place of a job file; `site`: "" = what the job file
    says, else local. `new`: under the first free name of NAME, NAME-2 ... `another`: on a machine that is rented for
    it, though the site has one already. `yes`: rented without a question, within `max_price` and `budget`.
    Raises: Misuse (bad-job-file, name-taken, stopped, ...), NotConfirmed, Unreachable, WorldError.
    """
    began_s = ctx.now_s()
    prepared = prepare(ctx, file, name=name, env=env or {}, new=new, command=command)
    if prepared.id in ctx.store.index.sweeps():
        other = under_another_name(prepared, site or prepared.job.site or "local")
        raise NameTaken(run=prepared.id, differs="it is that of a sweep", following=other)
    with ctx.alone(prepared.id):
        wish = Wish(prepared.need, prepared.job.budget, yes, another)
        bid = best_bid(ctx, prepared, site, wish, may_rent=True)
        decision = bid.decision
        refuse(ctx, prepared, bid)
        if decision.do == "nothing" and bid.view is not None:
            return launch.answer(ctx, bid.box, bid.view, "nothing", decision.why, began_s, prepared.job.warnings)
        if worst(bid.findings) == BLOCKED:
            return _blocked(ctx, prepared, bid, began_s)
        values: Mapping[str, str] = {}
        if decision.do == "adopt" and bid.view is not None:  # it lives, with the secrets it was given
            begun = launch.adopt(ctx, bid.box, bid.view, "run", wait_s)
        else:
            values = launch.read_secrets(ctx, prepared.spec)
            begun = _begin(ctx, prepared, bid, values, wait_s)
    view = launch.wait_proven(ctx, bid.box, prepared.id, decision.attempt, wait_s, begun)
    did = "adopted" if decision.do == "adopt" else "launched"
    meter = _meter_words(ctx, view.record.site, view.record.lease, bool(view.record.local.get("budget")))
    foreseen = foresee(prepared.job, prepared.pushed) if decision.do == "new" else ()
    remarks = (*prepared.job.warnings, *foreseen, *launch.unmasked(values), *begun.remarks, *meter)
    return launch.answer(ctx, bid.box, view, did, _did(decision, view), began_s, remarks)


def best_bid(ctx: Context, prepared: Prepared, site: str, wish: Wish, *, may_rent: bool = False) -> Bid:
    """The site named; else where the run already is; else the first candidate that answers and has what is needed.

    Where none does, the first one's trouble. A machine is rented for it only where it `may_rent`, and then no other
    candidate is tried: a run never costs two machines.   Raises: Misuse, Unreachable, WorldError.
    """
    known = ctx.store.index.run(prepared.id)
    view = refresh_one(ctx, known) if known is not None and known.attempt and not _never_was(ctx, known) else None
    names = [site] if site else list(prepared.job.candidates) or [prepared.job.site or "local"]
    excluded = {} if site else excluded_by_rule(ctx, prepared.job)
    if view is not None and not site and view.record.site_name in names:
        _stays(ctx, prepared, view, excluded, names)
        names = [view.record.site_name]
    for one in [name for name in names if name in excluded and len(names) > 1]:
        ctx.say(f"{one}: left out, because {excluded[one]}")
        names.remove(one)
    first: Bid | Misuse | WorldError | None = None
    for one in names:
        try:
            bid = _bid(ctx, prepared, ctx.site(one), view, wish, may_rent)
        except (NoSuchBackend, WorldError) as error:
            is_paid = isinstance(error, WorldError) and is_idle_there(ctx, ctx.site(one))
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
    decision = decide(view, prepared.spec, site.name)
    rents = provider_of(site).rents
    if wish.another and not rents:
        raise OneMachine(site=site.name)
    if view is not None and view.record.site_name == site.name:
        box = ctx.box(view.record.site, view.record.lease)
    elif may_rent and rents and decision.do in ("new", "continue"):
        box = rented(ctx, site, wish)
    elif decision.do in ("new", "continue") and is_to_rent(ctx, site, wish.another):
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
    findings = preflight.check_need(facts, Need() if box.scheduler else prepared.need, room_of(prepared, lacking))
    wants_cards = bool(prepared.need.accelerators)
    found = boxcheck.beside(findings, box, looked.value, prepared.job.envs, wants_cards=wants_cards)
    return Bid(box, view, decision, facts, found, lacking)


def room_of(prepared: Prepared, lacking: Set[str]) -> preflight.Room:
    """What this job takes on a box that lacks these snapshots."""
    return preflight.room([(tree.digest, tree.rows) for _, tree in prepared.trees], lacking)


def refuse(ctx: Context, prepared: Prepared, bid: Bid) -> None:
    """Return where the decision lets `run` go on. Raises: NameTaken, StoppedByUser, NotHere, Unreachable, Sick."""
    decision, view = bid.decision, bid.view
    if view is None or decision.do not in ("refuse", "unknown"):
        return
    run, other = prepared.id, under_another_name(prepared, bid.box.site.name)
    if decision.do == "unknown":
        raise not_refreshed(view)
    if "site" in decision.differs:
        raise NotHere(run=run, why=decision.why, following=f"sojourn resume {run}, or {other}")
    if decision.differs:
        raise NameTaken(run=run, differs=", ".join(named(prepared, view.record, decision)), following=other)
    if not view.status.state.is_final or view.status.state.is_dead:
        raise NotHere(run=run, why=decision.why, following=other)
    raise StoppedByUser(run=run)


def named(prepared: Prepared, record: RunRecord, decision: Decision) -> tuple[str, ...]:
    """What differs, with the files of the code where its earlier roster is still known."""
    files = changed_files(record.run.code_digest, prepared.trees[0][1])
    some = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return tuple(f"{part} ({some})" if part == "code" and some else part for part in decision.differs)


def _begin(ctx: Context, prepared: Prepared, bid: Bid, values: Mapping[str, str], wait_s: float) -> launch.Begun:
    """Journal what is wanted, push it, lay it on the box, and start it there."""
    box, attempt, hello = bid.box, bid.decision.attempt, bid.hello or {}
    reopen(ctx, box)
    old = ctx.store.index.run(prepared.id)
    if old is not None and old.attempt:
        spec = old.run.spec  # immutable: its own keeper and trainer, whatever is newer here
    else:
        spec = prepared.for_site(box.priced, keeper=box.keeper.file, train=box.keeper.train_file, now_s=ctx.now_s())
        ctx.store.append(
            "planned",
            run=prepared.id,
            site=asdict(box.site),
            root="",
            spec=spec,
            job_file=prepared.job.path,
            workdir=prepared.job.workdir,
            local=prepared.local(),
        )
        remember(prepared.trees[0][1])
    token = launch.journal_launching(ctx, box, prepared.id, attempt, prepared.need)
    base = str(hello["base"])
    ops, blobs = push(ctx, box, base, prepared.trees, bid.lacking)
    if box.keeper.train_file in bid.lacking:
        box.must(box.keeper.put_train(base))
    want = {"attempt": attempt, "by": "run", "token": token}
    ops.append({"op": "place", "run": spec, "want": want, "secrets": dict(values)})
    try:
        return launch.begin(ctx, box, prepared.id, attempt, ops, hello["argv"], blobs=blobs, wait_s=wait_s)
    except WorldError as error:
        if error.code != "name-taken":
            raise
        ctx.store.append("refused", run=prepared.id, attempt=attempt)
        raise NameTaken(
            run=prepared.id,
            differs=f"it is on {box.site.name}, put there by another client",
            following=under_another_name(prepared, box.site.name),
        ) from error


def _did(decision: Decision, view: RunView) -> str:
    attempt = view.record.attempt
    return {
        "adopt": f"attempt {attempt} kept running; it has a keeper again",
        "next-attempt": f"{decision.why}; attempt {attempt} is running",
    }.get(decision.do, f"attempt {attempt} is running")


def _meter_words(ctx: Context, site: Site, name: str, has_budget: bool) -> list[str]:
    """What runs against the user's money from now on. `name`: of the lease."""
    found = ctx.store.index.lease(name)
    if found is None or found.lease.is_free:
        return []
    lease = found.lease
    if not lease.is_rate_known and (found.has_stop or has_budget):
        return list(rates.words(site, found.has_stop, has_budget))
    if not lease.is_rate_known:  # said when the lease was taken
        return []
    rate = units.say_money(lease.rate_micro_per_h, lease.currency)
    words = [f"{lease.name} costs {rate} an hour until you release it: sojourn down {lease.name}"]
    return words + [f"{clock.what} ({clock.at}); loses {clock.loses}" for clock in lease.clocks]


def _blocked(ctx: Context, prepared: Prepared, bid: Bid, began_s: float) -> Launch:
    from sojourn.core.values import State

    view, lease = bid.view, bid.box.lease
    meter = _meter_words(ctx, bid.box.site, lease.name, prepared.job.budget is not None) if lease else []
    return Launch(
        id=prepared.id,
        site=bid.box.site.name,
        root="" if view is None else view.record.run.root,
        attempt=bid.decision.attempt - 1,
        state=State.PLANNED if view is None else view.status.state,
        did="blocked",
        why="nothing was started",
        next=quote.join(["sojourn", "plan", *_elsewhere(prepared, bid.box.site.name), *prepared.given]),
        findings=bid.findings,
        remarks=(*prepared.job.warnings, *meter),
        seconds=ctx.now_s() - began_s,
        exit_status=BLOCKED,
    )


def under_another_name(prepared: Prepared, site: str) -> str:
    """The command that starts the same job there under a name like its own that is not taken here."""
    return quote.join(["sojourn", "run", *_elsewhere(prepared, site), "--new", *prepared.given])


def _elsewhere(prepared: Prepared, site: str) -> tuple[str, ...]:
    return () if site == (prepared.job.site or "local") else ("--site", site)
