"""`down`: let go of a lease, under the Iron Law. The one place that asks a provider to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sojourn.core import law
from sojourn.core.owed import Lack
from sojourn.core.values import Lease, NoAnswer, Pulse
from sojourn.store.index import NotFound, resolve
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Down
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.renting import looked_for
from sojourn.verbs.observe.leases import spent_micro
from sojourn.verbs.release.clearing import Request, bounded, cleared, flags, listed
from sojourn.verbs.release.hooks import before_down
from sojourn.verbs.release.obligations import Hashed, facts, standings
from sojourn.verbs.retrieve.forget import forget_secrets
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, Refusal, WorldError

LOOKS, LOOK_S = 2, 2.0  # how often, and how far apart, a provider must say "gone" before we believe it
GONE_S = 180.0  # a provider may take this long to let go


class NotGone(WorldError):
    """{lease} was told to stop but still exists after {seconds} s; its meter may be running."""

    code = "not-gone"
    retry = True
    next_step = "sojourn down {lease} (again), and look at the provider's console"


class StillAnswers(Refusal):
    """{site} still answers, so {lease} is not stopped: its meter may be running."""

    code = "still-answers"
    next_step = "stop it at its provider, then sojourn down {lease} --already-stopped"


class StopsItself(Misuse):
    """{lease} has no meter to stop by hand."""

    code = "stops-itself"
    next_step = "sojourn down {lease}"


class NoKeptDisk(Misuse):
    """sojourn cannot stop {lease} and keep its disk."""

    code = "no-kept-disk"
    next_step = "sojourn down {lease}"


def down(
    ctx: Context,
    target: str,
    *,
    confirm: Confirm,
    abandon: Sequence[str] = (),
    accept: Sequence[str] = (),
    keeps_disk: bool = False,
    is_stopped: bool = False,
) -> Down:
    """Let go of the lease that `target` names: a lease, a site, or a run, which stands for its lease.

    Everything owed by every run on its box must be home, proven, and unchanged on both sides just now, whoever started
    it. `abandon`: what is given up, each by its full name (RUN, RUN:checkpoint, BOX:BASE/RUN); `accept`: files that are
    home and were not loaded (RUN:PATH); both are journaled before anything is let go. The name is asked for once, after
    everything that it acknowledges was listed. A lease that its provider twice says is gone is settled instead.
    What only the user can stop is cleared, with what to do; `is_stopped` says that it was done. `keeps_disk`: stop it
    in the way that keeps its disk.
    Repeatable after a crash. Raises: Misuse (not-found, ...), Withheld, NotConfirmed, HookFailed, Unreachable,
    WorldError.
    """
    found = find_lease(ctx, target)
    if not found.is_open:
        return _answer(ctx, found, [], f"it was already released ({found.line or found.state})")
    with ctx.alone(f"lease {found.name}"):
        record = ctx.store.index.lease(found.name) or found
        runs = ctx.store.index.runs_on(record.name)
        own = [run.site for run in runs if run.site_name == record.lease.site]
        site = own[-1] if own else ctx.site(record.lease.site)
        if record.state == "leasing" and not is_stopped:
            rented = looked_for(ctx, site, record)
            if rented is None:
                return _answer(ctx, ctx.store.index.lease(record.name) or record, runs, "nothing was rented")
            record = rented
        box = ctx.box(site, record.name)
        if not record.is_open:
            return _answer(ctx, record, runs, "it was already released")
        if is_stopped:
            return _believe(ctx, box, record, runs, confirm)
        if box.provider.metered and _is_gone(ctx, box, record):
            return _settle(ctx, record, runs, "its provider says that it is gone")
        given = law.Given(abandon=frozenset(abandon), accept=frozenset(accept))
        return _let_go(ctx, box, record, runs, confirm, given, keeps_disk)


def find_lease(ctx: Context, target: str) -> LeaseRecord:
    """The lease of this name, on this site, or that this run is on; else of their unique beginnings. An open one on
    the site is meant rather than a closed one of this name.   Raises: NotFound, Ambiguous.
    """
    leases = {record.name: record for record in ctx.store.index.leases(open_only=False)}
    sites = {record.lease.site: record for record in leases.values()}
    runs = {record.id: record.lease for record in ctx.store.index.runs()}
    name = resolve(target, dict.fromkeys([*leases, *sites, *runs]), "lease, site or run")
    record = leases.get(name)
    if record is None or not record.is_open:
        there = [one.name for one in leases.values() if one.is_open and one.lease.site == name]
        if there:
            record = leases[there[0] if len(there) == 1 else resolve(name, there, "lease")]
    record = record or sites.get(name) or leases.get(runs.get(name, ""))
    if record is None:
        raise NotFound(what="lease", wanted=target, hint=": that run was never launched, so it has no lease")
    return record


def _let_go(
    ctx: Context,
    box: Box,
    record: LeaseRecord,
    runs: list[RunRecord],
    confirm: Confirm,
    given: law.Given,
    keeps_disk: bool,
) -> Down:
    lease, hashed = record.lease, Hashed()
    if keeps_disk:
        lease = replace(lease, stop_verb=_keep_verb(lease), is_final=False)
    forget_secrets(ctx, box, runs)

    def hooks() -> bool:
        ran = [before_down(ctx, run, record.name) for run in runs if run.id not in given.abandon]
        return any(ran)

    request = Request(
        lease=lease,
        given=given,
        gather=lambda: facts(ctx, box, record.name, ctx.store.index.runs_on(record.name), hashed),
        hooks=hooks,
        ask=lambda seen, judgement, given_up: _ask(ctx, record, lease, seen, judgement, given_up, given),
        withheld=lambda lacks: law.withheld(record.name, lacks),
        lease_of=lambda run: record.name,
        closes=record.name,
    )
    done = cleared(ctx, request, confirm)
    clearance, judgement = done.clearance, done.judgement
    ctx.store.append("releasing", lease=record.name, clearance={"runs": list(clearance.runs), "at_s": clearance.at_s})
    ctx.say(f"releasing {record.name}")
    law.in_time(clearance, ctx.now_s())
    line = box.provider.release(lease, clearance)
    if box.scheduler:
        from sojourn.verbs.observe import scheduled

        line = "; ".join(part for part in (line, scheduled.used(box, runs)) if part)
    if box.provider.stops_itself:
        if box.provider.metered:
            _see_it_gone(ctx, box, record)
        ctx.store.append("released", lease=record.name, line=line, spent_micro=spent_micro(ctx, record))
    after = ctx.store.index.lease(record.name) or record
    unmade = (f"{run}: {glob} was never made" for run, glob in judgement.acknowledged)
    unproven = (f"{run}: {path} is known by its bytes alone" for run, path in judgement.unproven)
    return _answer(
        ctx,
        after,
        runs,
        line,
        acknowledged=(*unmade, *unproven, *judgement.listed),
        abandoned=judgement.abandoned,
        accepted=judgement.accepted,
    )


def _keep_verb(lease: Lease) -> str:
    """How to stop it so that its disk stays. Raises: NoKeptDisk."""
    if not lease.keep_verb:
        raise NoKeptDisk(lease=lease.name)
    return lease.keep_verb


def _believe(ctx: Context, box: Box, record: LeaseRecord, runs: list[RunRecord], confirm: Confirm) -> Down:
    """The user says that it is stopped: looked at where that is possible, then settled with what is lost or unknown."""
    if box.provider.stops_itself:
        raise StopsItself(lease=record.name)
    if not isinstance(box.ask("hello"), NoAnswer):
        raise StillAnswers(lease=record.name, site=box.site.name)
    lost = _lost(ctx, record, runs)
    lines = [f"you report that {record.name} on {record.lease.site} is stopped: its meter is recorded as ended now"]
    lines += [f"LOST OR UNKNOWN: {what}" for what in lost]
    command = f"sojourn down {record.name} --already-stopped --confirm {record.name}"
    confirmed(confirm, Ask("down", record.name, tuple(lines), command))
    return _settle(ctx, record, runs, "you say that it is stopped", lost)


def _settle(
    ctx: Context, record: LeaseRecord, runs: list[RunRecord], line: str, lost: Sequence[str] | None = None
) -> Down:
    """It is gone: nothing can be stopped or saved any more, so say what was lost."""
    lost = _lost(ctx, record, runs) if lost is None else lost
    ctx.store.append("settled", lease=record.name, lost=list(lost), line=line, spent_micro=spent_micro(ctx, record))
    done = ctx.store.index.lease(record.name) or record
    return _answer(ctx, done, runs, line, lost=tuple(lost))


def _lost(ctx: Context, record: LeaseRecord, runs: list[RunRecord]) -> list[str]:
    """What its runs owed and is not home, as far as anybody can know now."""
    given = law.Given(abandon=frozenset(str(one["run"]) for one in record.abandoned))
    seen = law.Facts(tuple(standings(ctx, runs, Hashed())), ctx.now_s())
    known = {run.id for run in runs}
    return [
        f"{lack.run}: {lack.what}"
        for lack in law.judge_release(record.lease, seen, given, ctx.now_s()).lacks
        if lack.run in known
    ]


def _is_gone(ctx: Context, box: Box, record: LeaseRecord) -> bool:
    for look in range(LOOKS):
        if look:
            ctx.sleep(LOOK_S)
        if box.provider.look(record.lease) is not Pulse.GONE:
            return False
    return True


def _see_it_gone(ctx: Context, box: Box, record: LeaseRecord) -> None:
    deadline_s = ctx.now_s() + GONE_S
    while not _is_gone(ctx, box, record):
        if ctx.now_s() >= deadline_s:
            raise NotGone(lease=record.name, seconds=round(GONE_S))
        ctx.say(f"waiting for {record.name} to disappear")
        ctx.sleep(LOOK_S)


def _ask(
    ctx: Context,
    record: LeaseRecord,
    lease: Lease,
    seen: law.Facts,
    judgement: law.Judgement,
    given_up: Sequence[Lack],
    given: law.Given,
) -> Ask:
    spent = spent_micro(ctx, record)
    cost = "its cost is unknown" if spent is None else f"cost so far {units.say_money(spent, lease.currency)}"
    cost = "it costs nothing" if lease.is_free else cost
    lines = [f"release {record.name} on {lease.site}: {lease.stop_verb}; {cost}"]
    if not lease.address and lease.token:
        lines.append("its machine was never reached, so no run is on it")
    if lease.is_final:
        lines.append("this cannot be undone: everything on its disk is deleted too")
    if not lease.is_final and not lease.is_free:  # what is kept is not kept for ever
        lines += [f"clock: {clock.what} ({clock.at}); loses {clock.loses}" for clock in lease.clocks]
    safe = [one for one in seen.runs if one.run not in given.abandon and one.is_launched]
    lines += [f"{one.run}: {one.state.value}, {len(one.receipts)} files are home and verified" for one in safe]
    lines += bounded(listed(judgement))
    lines += [f"{lack.run}: GIVEN UP: {lack.what}" for lack in given_up if lack.run]
    words = ["sojourn", "down", record.name, "--confirm", record.name, *flags(given)]
    return Ask("down", record.name, tuple(lines), quote.join(words))


def _answer(
    ctx: Context,
    record: LeaseRecord,
    runs: Sequence[RunRecord],
    line: str,
    *,
    acknowledged: tuple[str, ...] = (),
    abandoned: tuple[str, ...] = (),
    accepted: tuple[str, ...] = (),
    lost: tuple[str, ...] = (),
) -> Down:
    after = "" if record.lease.is_free else "sojourn cost"
    return Down(
        lease=record.name,
        site=record.lease.site,
        runs=tuple(run.id for run in runs),
        released=record.state == "released",
        settled=record.state == "settled",
        line=line,
        acknowledged=acknowledged,
        abandoned=abandoned,
        accepted=accepted,
        lost=lost,
        spent_micro=spent_micro(ctx, record),
        currency=record.lease.currency,
        next=f"sojourn down {record.name} --already-stopped" if record.is_open else after,
        exit_status=1 if lost else 0,
    )
