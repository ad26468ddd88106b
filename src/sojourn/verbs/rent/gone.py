"""The end of a machine: looked for until its provider says twice that it is gone; and the release of one never used."""

from __future__ import annotations

from sojourn.core import law, money
from sojourn.core.ports import Provider
from sojourn.core.values import Lease, Pulse
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Context
from sojourn.wire.errors import WorldError

LOOKS, LOOK_S = 2, 2.0  # how often, and how far apart, a provider must say "gone" before we believe it
GONE_S = 180.0  # a provider may take this long to let go


class NotGone(WorldError):
    """{lease} was told to stop but still exists after {seconds} s; its meter may be running."""

    code = "not-gone"
    retry = True
    next_step = "sojourn down {lease} (again), and look at the provider's console"


def is_gone(ctx: Context, provider: Provider, lease: Lease) -> bool:
    """Whether the provider says so twice, a while apart. One that is stopped to keep its disk is as good as gone."""
    goal = (Pulse.GONE,) if lease.is_final else (Pulse.GONE, Pulse.STOPPED)
    for look in range(LOOKS):
        if look:
            ctx.sleep(LOOK_S)
        if provider.look(lease) not in goal:
            return False
    return True


def see_it_gone(ctx: Context, provider: Provider, lease: Lease) -> None:
    """Return once it is gone. Raises: NotGone."""
    deadline_s = ctx.now_s() + GONE_S
    while not is_gone(ctx, provider, lease):
        if ctx.now_s() >= deadline_s:
            raise NotGone(lease=lease.name, seconds=round(GONE_S))
        ctx.say(f"waiting for {lease.name} to disappear")
        ctx.sleep(LOOK_S)


def release_unused(ctx: Context, provider: Provider, record: LeaseRecord, named: str) -> str:
    """Release a machine that never answered and that nothing was ever sent to, and see it gone; what the provider said.

    `named`: the name by which its user agreed to that in this very command, before it was rented. Everything else is
    taken from the journal.   Raises: Withheld, NotGone, WorldError.
    """
    unused = law.Unused(
        token=record.lease.token,
        runs=tuple(run.id for run in ctx.store.index.runs_on(record.name)),
        has_answered=has_answered(record),
        named=named,
    )
    lease = record.lease
    clearance = law.clear_unused(lease, unused, ctx.now_s())
    ctx.store.append("releasing", lease=lease.name, clearance={"runs": [], "at_s": clearance.at_s})
    ctx.say(f"releasing {lease.name}, which never answered and was never used")
    law.in_time(clearance, ctx.now_s())
    line = provider.release(lease, clearance)
    see_it_gone(ctx, provider, lease)
    spent = money.spent_micro(lease.rate_micro_per_h, lease.began_s, ctx.now_s()) if lease.is_rate_known else None
    ctx.store.append("released", lease=lease.name, line=line, spent_micro=spent)
    return line


def has_answered(record: LeaseRecord) -> bool:
    """Whether its keeper ever said hello, by the journal."""
    return bool(record.lease.facts.get("answered_s"))
