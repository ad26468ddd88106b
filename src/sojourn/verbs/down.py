"""`down`: let go of a lease, under the Iron Law. The one place that asks a provider to release."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core import law, money
from sojourn.core.values import Pulse
from sojourn.store.index import NotFound, resolve
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Ask, Confirm, Down
from sojourn.verbs.context import Box, Context
from sojourn.verbs.forget import forget_secrets
from sojourn.verbs.hooks import before_down
from sojourn.verbs.standings import standings
from sojourn.verbs.stop import confirmed
from sojourn.wire import units
from sojourn.wire.errors import WorldError

LOOKS, LOOK_S = 2, 2.0  # how often, and how far apart, a provider must say "gone" before we believe it
GONE_S = 180.0  # a provider may take this long to let go


class NotGone(WorldError):
    """{lease} was asked to go and is still there after {seconds} s: the meter may be running."""

    code = "not-gone"
    retry = True
    next_step = "sojourn down {lease} (again), and look at the provider's console"


def down(ctx: Context, target: str, *, confirm: Confirm, abandon: Sequence[str] = ()) -> Down:
    """Let go of the lease that `target` names: a lease, a site, or a run, which stands for its lease.

    Everything owed by every run on it must be home, proven, and unchanged on both sides just now. `abandon`: runs whose
    outputs are given up, each by its full name; journaled before anything is let go. The name is asked for once, after
    everything that it acknowledges was listed. A lease that its provider twice says is gone is settled instead. What
    only the user can stop is cleared first, with what to do; the same command given again then lets it go.
    Repeatable after a crash. Raises: Misuse (not-found), Withheld, NotConfirmed, HookFailed, Unreachable, WorldError.
    """
    found = find_lease(ctx, target)
    if not found.is_open:
        return _answer(ctx, found, [], f"it was let go before ({found.line or found.state})")
    with ctx.alone(f"lease {found.lease.site}"):
        record = ctx.store.index.lease(found.name) or found
        runs = ctx.store.index.runs_on(record.name)
        box = ctx.box(runs[-1].site if runs else ctx.site(record.lease.site))
        if not record.is_open:
            return _answer(ctx, record, runs, "it was let go before")
        if box.provider.metered and _is_gone(ctx, box, record):
            return _settle(ctx, record, runs)
        return _let_go(ctx, box, record, runs, confirm, frozenset(abandon))


def find_lease(ctx: Context, target: str) -> LeaseRecord:
    """The lease of this name, on this site, or that this run is on; else of their unique beginnings.

    Raises: NotFound, Ambiguous.
    """
    leases = {record.name: record for record in ctx.store.index.leases(open_only=False)}
    sites = {record.lease.site: record for record in leases.values()}
    runs = {record.id: record.lease for record in ctx.store.index.runs()}
    name = resolve(target, dict.fromkeys([*leases, *sites, *runs]), "lease, site or run")
    record = leases.get(name) or sites.get(name) or leases.get(runs.get(name, ""))
    if record is None:
        raise NotFound(what="lease", wanted=target, hint=": that run was never launched, so it is on none")
    return record


def _let_go(
    ctx: Context, box: Box, record: LeaseRecord, runs: list[RunRecord], confirm: Confirm, abandon: frozenset[str]
) -> Down:
    lease, now_s = record.lease, ctx.now_s()
    forget_secrets(ctx, box, runs)
    facts = standings(ctx, runs)
    judgement = law.judge(lease, facts, now_s, abandon)
    if judgement.lacks:
        raise law.withheld(record.name, judgement.lacks)
    for run in runs:
        if run.id not in abandon:
            before_down(ctx, run, record.name)
    given_up = law.judge(lease, [one for one in facts if one.run in abandon], now_s).lacks
    by_user = box.provider.metered and not box.provider.stops_itself
    is_told = by_user and record.state == "releasing"
    ask = _ask(ctx, record, facts, judgement, given_up, abandon, is_told)
    typed = confirmed(confirm, ask)
    ctx.store.append("clearing", lease=record.name, listed=list(ask.lines))
    journaled = {str(one["run"]) for one in record.abandoned}
    for run_id in sorted(abandon - journaled):
        what = "; ".join(lack.what for lack in given_up if lack.run == run_id)
        ctx.store.append("abandoned", lease=record.name, run=run_id, what=what)
    clearance = law.clear(lease, facts, typed, now_s, abandon, abandon | journaled)
    ctx.store.append("releasing", lease=record.name, clearance={"runs": list(clearance.runs), "at_s": clearance.at_s})
    ctx.say(f"letting go of {record.name}")
    line = "you say that it is stopped" if is_told else box.provider.release(lease, clearance)
    if box.schedules:
        from sojourn.verbs import scheduled

        line = "; ".join(part for part in (line, scheduled.used(box, runs)) if part)
    if box.provider.metered and not by_user:
        _see_it_gone(ctx, box, record)
    if is_told or not by_user:
        ctx.store.append("released", lease=record.name, line=line, spent_micro=_spent(ctx, record))
    done = ctx.store.index.lease(record.name) or record
    unmade = (f"{run}: {glob} was never made" for run, glob in judgement.acknowledged)
    unproven = (f"{run}: {path} is known by its bytes alone" for run, path in judgement.unproven)
    return _answer(ctx, done, runs, line, acknowledged=(*unmade, *unproven), abandoned=tuple(sorted(abandon)))


def _settle(ctx: Context, record: LeaseRecord, runs: list[RunRecord]) -> Down:
    """Its provider says that it is gone: nothing can be stopped or saved any more, so say what was lost."""
    facts = standings(ctx, runs)
    given_up = {str(one["run"]) for one in record.abandoned}
    lacks = law.judge(record.lease, facts, ctx.now_s(), frozenset(given_up)).lacks
    lost = [f"{lack.run}: {lack.what}" for lack in lacks if lack.run]
    ctx.store.append("settled", lease=record.name, lost=lost, spent_micro=_spent(ctx, record))
    done = ctx.store.index.lease(record.name) or record
    return _answer(ctx, done, runs, "its provider says that it is gone", lost=tuple(lost))


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
        ctx.say(f"waiting for {record.name} to be gone")
        ctx.sleep(LOOK_S)


def _ask(
    ctx: Context,
    record: LeaseRecord,
    facts: Sequence[law.Standing],
    judgement: law.Judgement,
    given_up: Sequence[law.Lack],
    abandon: frozenset[str],
    is_told: bool,
) -> Ask:
    lease = record.lease
    spent = units.say_money(_spent(ctx, record), lease.currency)
    cost = f"cost so far {spent}" if lease.rate_micro_per_h else "it costs nothing"
    lines = [f"let go of {record.name} on {lease.site}: {lease.stop_verb}; {cost}"]
    if is_told:
        lines.append("you were told how to stop it: give its name only once it is stopped")
    elif lease.is_final:
        lines.append("this cannot be undone: what is on its disk is deleted with it")
    if not lease.is_final and lease.rate_micro_per_h:  # what is kept is not kept for ever
        lines += [f"clock: {clock.what} ({clock.at}); loses {clock.loses}" for clock in lease.clocks]
    safe = [one for one in facts if one.run not in abandon and one.is_launched]
    lines += [f"{one.run}: {one.state.value}, {len(one.receipts)} outputs are home and proven" for one in safe]
    lines += [f"{run}: {glob} is owed and was never made" for run, glob in judgement.acknowledged]
    lines += [f"{run}: {path} is home by its hash alone; no loader knows its kind" for run, path in judgement.unproven]
    lines += [f"{lack.run}: GIVEN UP: {lack.what}" for lack in given_up if lack.run]
    extra = "".join(f" --abandon {run}" for run in sorted(abandon))
    return Ask("down", record.name, tuple(lines), f"sojourn down {record.name} --confirm {record.name}{extra}")


def _spent(ctx: Context, record: LeaseRecord) -> int:
    if record.spent_micro is not None:
        return record.spent_micro
    return money.spent_micro(record.lease.rate_micro_per_h, record.lease.began_s, record.ended_s or ctx.now_s())


def _answer(
    ctx: Context,
    record: LeaseRecord,
    runs: Sequence[RunRecord],
    line: str,
    *,
    acknowledged: tuple[str, ...] = (),
    abandoned: tuple[str, ...] = (),
    lost: tuple[str, ...] = (),
) -> Down:
    after = "sojourn cost" if record.lease.rate_micro_per_h else ""
    return Down(
        lease=record.name,
        site=record.lease.site,
        runs=tuple(run.id for run in runs),
        released=record.state == "released",
        settled=record.state == "settled",
        line=line,
        acknowledged=acknowledged,
        abandoned=abandoned,
        lost=lost,
        spent_micro=_spent(ctx, record),
        currency=record.lease.currency,
        next=f"sojourn down {record.name}" if record.is_open else after,
        exit_status=1 if lost else 0,
    )
