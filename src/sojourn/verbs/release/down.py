"""`down`: let go of a lease, under the Iron Law. The one place that asks a provider to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sojourn.core import law
from sojourn.core.beforehand import Beforehand
from sojourn.core.owed import Lack
from sojourn.core.values import Lease, NoAnswer
from sojourn.store.index import NotFound, resolve
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Down
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Box, Context
from sojourn.verbs.observe.leases import spent_micro
from sojourn.verbs.release.clearing import Request, bounded, cleared, flags, listed
from sojourn.verbs.release.hooks import before_down
from sojourn.verbs.release.obligations import Hashed, facts, obligations_of
from sojourn.verbs.release.remnants import Remnants, beside, remnants
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.rent.gone import is_gone, see_it_gone
from sojourn.verbs.rent.machine import looked_for
from sojourn.verbs.rent.vanished import LINE
from sojourn.verbs.retrieve.forget import forget_secrets
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, Refusal

NOTHING = Remnants()
_THERE = ("login", "no-exec")  # kinds of a NoAnswer of a machine that let us in


class StillAnswers(Refusal):
    """{site} still answers, so {lease} is not stopped: its meter may be running."""

    code = "still-answers"
    next_step = "stop it at its provider, then sojourn down {lease} --already-stopped"


class FellSilent(Refusal):
    """{site} was reached and then gave no answer ({what}), so {lease} is not known to be stopped: its meter may be
    running.
    """

    code = "fell-silent"
    next_step = "stop it at its provider, then sojourn down {lease} --already-stopped"


class StopsItself(Misuse):
    """{lease} has no meter to stop by hand."""

    code = "stops-itself"
    next_step = "sojourn down {lease}"


class NoKeptDisk(Misuse):
    """sojourn cannot stop {lease} and keep its disk."""

    code = "no-kept-disk"
    next_step = "sojourn down {lease}"


def down(ctx: Context, asked: DownRequest, *, confirm: Confirm, beforehand: Beforehand | None = None) -> Down:
    """Let go of the lease that is asked for, under the Iron Law.

    Everything owed by every run on its box must be home, proven, and unchanged on both sides just now, whoever started
    it; what is abandoned or accepted is journaled before anything is let go. The name is asked for once, after
    everything that it acknowledges was listed. A lease that its provider twice says is gone is settled instead.
    `beforehand`: who confirmed this did so before the runs had ended; then nothing is released that is not clean.
    What only the user can stop is cleared, with what to do, and settled by a request that says `is_stopped`.
    Repeatable after a crash. Raises: Misuse (not-found, ...), Withheld, NotConfirmed, HookFailed, Unreachable,
    WorldError.
    """
    found = find_lease(ctx, asked.target)
    if not found.is_open:
        return _answer(ctx, found, [], f"it was already released ({found.line or found.state})")
    with ctx.alone(f"lease {found.name}"):
        record = ctx.store.index.lease(found.name) or found
        runs = ctx.store.index.runs_on(record.name)
        own = [run.site for run in runs if run.site_name == record.lease.site]
        site = own[-1] if own else ctx.site(record.lease.site)
        if record.state == "leasing" and not asked.is_stopped:
            rented = looked_for(ctx, site, record)
            if rented is None:
                return _answer(ctx, ctx.store.index.lease(record.name) or record, runs, "nothing was rented")
            record = rented
        box = ctx.box(site, record.name)
        if not record.is_open:
            return _answer(ctx, record, runs, "it was already released")
        if asked.is_stopped:
            return _believe(ctx, box, record, runs, confirm)
        if box.provider.metered and is_gone(ctx, box.provider, record.lease):
            left = remnants(ctx, box, record.lease)
            return _settle(ctx, record, runs, LINE, left=left, vanished=True)
        lease = _kept(record.lease) if asked.keeps_disk else record.lease
        if asked.keeps_disk and record.state == "releasing" and is_gone(ctx, box.provider, lease):
            line = f"it was stopped before ({record.lease.keep_verb}); its disk goes on billing"
            ctx.store.append("released", lease=record.name, line=line, spent_micro=spent_micro(ctx, record))
            now = ctx.store.index.lease(record.name) or record
            return _answer(ctx, now, runs, line, remnants(ctx, box, record.lease))
        given = law.Given(abandon=frozenset(asked.abandon), accept=frozenset(asked.accept))
        request = _request(ctx, box, record, lease, runs, given)
        if beforehand is not None:
            request = replace(request, beyond=partial(beforehand.beyond, lease))
        return _let_go(ctx, box, record, runs, request, confirm)


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


def _request(
    ctx: Context, box: Box, record: LeaseRecord, lease: Lease, runs: Sequence[RunRecord], given: law.Given
) -> Request:
    """The release that the law is asked for. `lease`: that of `record`, as it is stopped."""
    hashed = Hashed()
    is_nowhere = box.provider.rents and box.lease is None  # as in `facts`

    def hooks() -> bool:
        ran = [before_down(ctx, run, record.name) for run in runs if run.id not in given.abandon]
        return any(ran)

    return Request(
        lease=lease,
        given=given,
        gather=lambda: facts(ctx, box, record.name, ctx.store.index.runs_on(record.name), hashed),
        hooks=hooks,
        ask=lambda seen, judgement, given_up: _ask(
            lease, spent_micro(ctx, record), seen, judgement, given_up, given, is_nowhere
        ),
        withheld=lambda lacks: law.withheld(record.name, lacks),
        lease_of=lambda run: record.name,
        closes=record.name,
        earlier={str(one["run"]): str(one.get("digest", "")) for one in record.abandoned},
    )


def _let_go(
    ctx: Context, box: Box, record: LeaseRecord, runs: list[RunRecord], request: Request, confirm: Confirm
) -> Down:
    lease = request.lease
    forget_secrets(ctx, box, runs)
    had = beside(box, lease)
    done = cleared(ctx, request, confirm)
    clearance, judgement = done.clearance, done.judgement
    ctx.store.append("releasing", lease=record.name, clearance={"runs": list(clearance.runs), "at_s": clearance.at_s})
    ctx.say(f"releasing {record.name}")
    law.in_time(clearance, ctx.now_s())
    line = box.provider.release(lease, clearance)
    if box.scheduler:
        from sojourn.verbs.observe import scheduled

        line = "; ".join(part for part in (line, scheduled.used(box, runs), scheduled.tidied(box, runs)) if part)
    if box.provider.stops_itself:
        if box.provider.metered:
            see_it_gone(ctx, box.provider, lease)
        ctx.store.append("released", lease=record.name, line=line, spent_micro=spent_micro(ctx, record))
    left = remnants(ctx, box, lease, had) if box.provider.stops_itself else Remnants()
    after = ctx.store.index.lease(record.name) or record
    unmade = (f"{run}: {glob} was never made" for run, glob in judgement.acknowledged)
    unproven = (
        f"{run}: {path} is home, unknown format: only its SHA-256 was checked" for run, path in judgement.unproven
    )
    return replace(
        _answer(ctx, after, runs, line, left),
        acknowledged=(*unmade, *unproven, *judgement.listed),
        beside=judgement.beside,
        abandoned=judgement.abandoned,
        accepted=judgement.accepted,
    )


def _kept(lease: Lease) -> Lease:
    """The lease as it is stopped so that its disk stays. Raises: NoKeptDisk."""
    if not lease.keep_verb:
        raise NoKeptDisk(lease=lease.name)
    return replace(lease, stop_verb=lease.keep_verb, is_final=False)


def _believe(ctx: Context, box: Box, record: LeaseRecord, runs: list[RunRecord], confirm: Confirm) -> Down:
    """The user says that it is stopped: looked at where that is possible, then settled with what is lost or unknown."""
    if box.provider.stops_itself:
        raise StopsItself(lease=record.name)
    answer = box.ask("hello")
    if not isinstance(answer, NoAnswer):
        raise StillAnswers(lease=record.name, site=box.site.name)
    if answer.sent or answer.kind in _THERE:
        raise FellSilent(lease=record.name, site=box.site.name, what=answer.detail or answer.kind)
    lost = _lost(ctx, record, runs)
    lines = [f"you report that {record.name} on {record.lease.site} is stopped: its meter is recorded as ended now"]
    lines += [f"LOST OR UNKNOWN: {what}" for what in lost]
    command = f"sojourn down {record.name} --already-stopped --confirm {record.name}"
    confirmed(confirm, Ask("down", record.name, tuple(lines), command))
    return _settle(ctx, record, runs, "you reported it as stopped", lost)


def _settle(
    ctx: Context,
    record: LeaseRecord,
    runs: list[RunRecord],
    line: str,
    lost: Sequence[str] | None = None,
    left: Remnants = NOTHING,
    vanished: bool = False,
) -> Down:
    """It is gone: nothing can be stopped or saved any more, so say what was lost."""
    lost = _lost(ctx, record, runs) if lost is None else lost
    spent, more = spent_micro(ctx, record), {"vanished": True} if vanished else {}
    ctx.store.append("settled", lease=record.name, lost=list(lost), line=line, spent_micro=spent, **more)
    done = ctx.store.index.lease(record.name) or record
    return replace(_answer(ctx, done, runs, line, left), lost=tuple(lost), exit_status=1 if lost else 0)


def _lost(ctx: Context, record: LeaseRecord, runs: list[RunRecord]) -> list[str]:
    """What its runs owed and is not home, as far as anybody can know now."""
    given = law.Given(abandon=frozenset(str(one["run"]) for one in record.abandoned))
    seen = law.Facts(tuple(obligations_of(ctx, runs, Hashed())), ctx.now_s())
    known = {run.id for run in runs}
    return [
        f"{lack.run}: {lack.what}"
        for lack in law.judge_release(record.lease, seen, given, ctx.now_s()).lacks
        if lack.run in known
    ]


def _ask(
    lease: Lease,
    spent: int | None,
    seen: law.Facts,
    judgement: law.Judgement,
    given_up: Sequence[Lack],
    given: law.Given,
    is_nowhere: bool,
) -> Ask:
    cost = "its cost is unknown" if spent is None else f"cost so far {units.say_money(spent, lease.currency)}"
    cost = "it costs nothing" if lease.is_free else cost
    lines = [f"release {lease.name} on {lease.site}: {lease.stop_verb}; {cost}"]
    if is_nowhere:
        lines.append("its machine was never reached, so no run is on it")
    if lease.is_final:
        lines.append("this cannot be undone: everything on its disk is deleted too")
    if not lease.is_final and not lease.is_free:  # what is kept is not kept for ever
        lines += [f"clock: {clock.what} ({clock.at}); loses {clock.loses}" for clock in lease.clocks]
    safe = [one for one in seen.runs if one.run not in given.abandon and one.is_launched]
    lines += [f"{one.run}: {one.state.value}, {len(one.receipts)} files are home and verified" for one in safe]
    lines += bounded(listed(judgement))
    lines += [f"{lack.run}: GIVEN UP: {lack.what}" for lack in given_up if lack.run]
    words = ["sojourn", "down", lease.name, "--confirm", lease.name, *flags(given)]
    return Ask("down", lease.name, tuple(lines), quote.join(words))


def _answer(ctx: Context, record: LeaseRecord, runs: Sequence[RunRecord], line: str, left: Remnants = NOTHING) -> Down:
    """The answer where nothing was acknowledged, given up or lost."""
    after = "" if record.lease.is_free else "sojourn cost"
    return Down(
        lease=record.name,
        site=record.lease.site,
        runs=tuple(run.id for run in runs),
        released=record.state == "released",
        settled=record.state == "settled",
        line=line,
        acknowledged=(),
        abandoned=(),
        accepted=(),
        lost=(),
        spent_micro=spent_micro(ctx, record),
        currency=record.lease.currency,
        next=f"sojourn down {record.name} --already-stopped" if record.is_open else after,
        billing=left.billing,
        billing_unknown=left.unknown,
    )
