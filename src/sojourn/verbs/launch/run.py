"""`run`: from a job file to a process proven alive. Any step may be interrupted; the same `run` continues there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from sojourn.core.values import Site
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Launch, worst
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import launch, rates
from sojourn.verbs.launch.again import begin_again, from_home
from sojourn.verbs.launch.bidding import BLOCKED, Bid, NotHere, best_bid, elsewhere, under_another_name
from sojourn.verbs.launch.decide import Decision
from sojourn.verbs.launch.prepare import Prepared, prepare
from sojourn.verbs.launch.push import push
from sojourn.verbs.launch.recode import refused
from sojourn.verbs.launch.renting import reopen
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.revise import kept_words, replaced
from sojourn.verbs.launch.rosters import changed_files, remember
from sojourn.verbs.observe.refresh import not_refreshed
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.project.foresight import foresee
from sojourn.verbs.rent.price import Wish
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


class NameTaken(Misuse):
    """The name {run} belongs to a run with a different specification: {differs}{left}. Nothing was changed."""

    code = "name-taken"
    next_step = "{following}"


class StoppedByUser(Misuse):
    """{run} was stopped; running it again does not undo that."""

    code = "stopped"
    next_step = "sojourn resume {run}"


def run(ctx: Context, asked: RunRequest, *, wait_s: float = 60.0) -> Launch:
    """Start the job, or make sure that it is started. Returns when its process is proven alive or has ended.

    The identical call is a no-op while the run lives or has succeeded, puts a keeper back where only the process is
    left, and starts the next attempt where it is dead. Blocks for `wait_s` at most after the start (a long `setup`
    goes on without us).
    Raises: Misuse (bad-job-file, name-taken, stopped, ...), NotConfirmed, Unreachable, WorldError.
    """
    began_s = ctx.now_s()
    prepared = prepare(ctx, asked)
    refuse_sweep(ctx, prepared, asked.site)
    with ctx.alone(prepared.id):
        wish = Wish(prepared.need, prepared.job.budget, asked.yes, asked.another, waits=asked.waits)
        bid = best_bid(ctx, prepared, asked.site, wish, may_rent=True)
        decision = bid.decision
        refuse(ctx, prepared, bid)
        if decision.do == "nothing" and bid.view is not None:
            return launch.answer(ctx, bid.box, bid.view, "nothing", decision.why, began_s, prepared.job.warnings)
        if worst(bid.findings) == BLOCKED:
            return blocked(ctx, prepared, bid, began_s)
        values: Mapping[str, str] = {}
        if decision.do == "adopt" and bid.view is not None:  # it lives, with the secrets it was given
            begun = launch.adopt(ctx, bid.box, bid.view, "run", wait_s)
        else:
            values = launch.read_secrets(ctx, prepared.spec)
            begun = _begin(ctx, prepared, bid, values, wait_s)
    view = launch.wait_proven(ctx, bid.box, prepared.id, decision.attempt, wait_s, begun)
    did = "adopted" if decision.do == "adopt" else "launched"
    meter = meter_words(ctx, view.record.site, view.record.lease, bool(view.record.local.get("budget")))
    foreseen = foresee(prepared.job, prepared.pushed) if decision.do == "new" else ()
    kept = kept_words(ctx, decision, prepared.id)
    kept = (*kept, from_home(ctx, bid.view.record)) if decision.do == "again" and bid.view else kept
    remarks = (*prepared.job.warnings, *kept, *foreseen, *launch.unmasked(values), *begun.remarks, *meter)
    return launch.answer(ctx, bid.box, view, did, _did(decision, view), began_s, remarks)


def refuse_sweep(ctx: Context, prepared: Prepared, site: str) -> None:
    """Raises: NameTaken where a sweep has the run's name. `site`: as named by the user, or ""."""
    if prepared.id in ctx.store.index.sweeps():
        other = under_another_name(prepared, site or prepared.job.site or "local")
        raise NameTaken(run=prepared.id, differs="it is that of a sweep", left="", following=other)


def refuse(ctx: Context, prepared: Prepared, bid: Bid) -> None:
    """Return if the decision lets `run` continue. Raises: NameTaken, StoppedByUser, NotHere, Unreachable, Sick."""
    decision, view = bid.decision, bid.view
    if view is None or decision.do not in ("refuse", "unknown"):
        return
    run, other = prepared.id, under_another_name(prepared, bid.box.site.name)
    if decision.do == "unknown":
        raise not_refreshed(view)
    if "site" in decision.differs:
        raise NotHere(run=run, why=decision.why, following=f"sojourn resume {run}, or {other}")
    if decision.differs:
        may_resume = (
            view.status.state.is_dead and not view.record.sweep and not refused(view.record.run.spec, prepared.spec)
        )
        following = f"sojourn resume {run} --with-code new, or {other}" if may_resume else other
        differs = ", ".join(named(prepared, view.record, decision))
        raise NameTaken(run=run, differs=differs, left=decision.left, following=following)
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
    if bid.decision.do == "again" and bid.view is not None:
        return begin_again(ctx, prepared, bid, values, wait_s)
    reopen(ctx, box)
    spec = journal_planned(ctx, prepared, box, bid.decision)
    token = launch.journal_launching(ctx, box, prepared.id, attempt, prepared.need)
    base = str(hello["base"])
    ops, blobs = push(ctx, box, base, prepared.trees, bid.lacking)
    if box.keeper.train_file in bid.lacking:
        box.must(box.keeper.put_train(base))
    want = {"attempt": attempt, "by": "run", "token": token}
    if ctx.store.index.find(prepared.id).run.earlier:  # the box's run.json is that of its first code
        ops.append({"op": "want", "run": prepared.id, "spec": spec, **want, "secrets": dict(values)})
    else:
        ops.append({"op": "place", "run": spec, "want": want, "secrets": dict(values)})
    try:
        argv, options = hello["argv"], prepared.job.scheduling
        return launch.begin(ctx, box, prepared.id, attempt, ops, argv, blobs=blobs, wait_s=wait_s, scheduling=options)
    except WorldError as error:
        if error.code != "name-taken":
            raise
        raise taken(ctx, prepared, box, attempt) from error


def journal_planned(ctx: Context, prepared: Prepared, box: Box, decision: Decision) -> Spec:
    """Journal the run as planned for this box, if it was never launched; its run.json. What it replaces is kept first.

    Raises: Unreachable, WorldError.
    """
    old = ctx.store.index.run(prepared.id)
    if old is not None and decision.do == "replace":
        replaced(ctx, old)
        old = None
    if old is not None and old.attempt:
        return old.run.spec  # immutable: its own keeper and trainer, whatever is newer here
    spec = prepared.for_site(box.priced, keeper=box.keeper.file, train=box.keeper.train_file, now_s=ctx.now_s())
    spec = {**spec, "first": decision.attempt} if decision.attempt > 1 else spec
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
    return spec


def taken(ctx: Context, prepared: Prepared, box: Box, attempt: int) -> NameTaken:
    """Journal that the box has another run of this name; the error that says so."""
    ctx.store.append("refused", run=prepared.id, attempt=attempt)
    return NameTaken(
        run=prepared.id,
        differs=f"it is on {box.site.name}, put there by another client",
        left="",
        following=under_another_name(prepared, box.site.name),
    )


def _did(decision: Decision, view: RunView) -> str:
    attempt = view.record.attempt
    return {
        "adopt": f"attempt {attempt} kept running; it has a keeper again",
        "next-attempt": f"{decision.why}; attempt {attempt} is running",
        "again": f"{decision.why}; attempt {attempt} is running on another machine",
    }.get(decision.do, f"attempt {attempt} is running")


def meter_words(ctx: Context, site: Site, name: str, has_budget: bool) -> list[str]:
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


def blocked(ctx: Context, prepared: Prepared, bid: Bid, began_s: float) -> Launch:
    """The answer where a confirmed blocker stands against the only box."""
    from sojourn.core.values import State

    view, lease = bid.view, bid.box.lease
    meter = meter_words(ctx, bid.box.site, lease.name, prepared.job.budget is not None) if lease else []
    return Launch(
        id=prepared.id,
        site=bid.box.site.name,
        root="" if view is None else view.record.run.root,
        attempt=bid.decision.attempt - 1,
        state=State.PLANNED if view is None else view.status.state,
        did="blocked",
        why="nothing was started",
        next=quote.join(["sojourn", "plan", *elsewhere(prepared, bid.box.site.name), *prepared.given]),
        findings=bid.findings,
        remarks=(*prepared.job.warnings, *meter),
        seconds=ctx.now_s() - began_s,
        exit_status=BLOCKED,
    )
