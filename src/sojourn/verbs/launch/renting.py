"""The lease that a run goes onto, while it moves in: the site's open one, or one of a site that rents none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from sojourn.core.need import Need
from sojourn.core.values import Lease
from sojourn.store.records import LeaseRecord
from sojourn.verbs.confirm import Ask, confirmed
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import rates
from sojourn.verbs.rent.machine import LetGo, NothingToRent, open_lease, tell_clocks


def lease_of(ctx: Context, box: Box) -> LeaseRecord | None:
    """The open lease that a run on this box would go onto: that of its machine, where it is rented."""
    return open_lease(ctx, box.site) if box.lease is None else ctx.store.index.lease(box.lease.name)


def is_cleared(record: LeaseRecord) -> bool:
    """Whether it was cleared and its user was told to stop it, so that its machine may or may not be running."""
    return record.state == "releasing" and record.has_stop


def reopen(ctx: Context, box: Box) -> None:
    """Where the box's lease was cleared to be stopped: ask whether something is to start on it all the same, and
    journal that it is open again. Otherwise nothing is asked.   Raises: NotConfirmed; then nothing was changed.
    """
    record = lease_of(ctx, box)
    if record is not None and is_cleared(record):
        with ctx.alone(f"lease {record.name}"):
            _reopen(ctx, ctx.store.index.lease(record.name))


def _reopen(ctx: Context, record: LeaseRecord | None) -> None:
    """The same, inside the lease's lock."""
    if record is None or not is_cleared(record):
        return
    lease, name = record.lease, record.name
    lines = (
        f"{name} was cleared to stop ({lease.stop_verb}) but is not recorded as stopped",
        "anything you start there is lost when it stops; its meter keeps running until then",
        f"if it is already stopped, record that instead: sojourn down {name} --already-stopped",
    )
    confirmed(ctx.confirm, Ask("run", name, lines, f"the same command with --confirm {name}"))
    ctx.store.append("reopened", lease=name)


@contextmanager
def moving_in(ctx: Context, box: Box, need: Need) -> Iterator[Lease]:
    """The lease that a run goes onto: journal the run's `launching` inside. Meanwhile nobody lets go of it.

    Raises: NothingToRent, LetGo, NotConfirmed, WorldError.
    """
    reopen(ctx, box)
    with ctx.alone(f"lease {box.machine}"):
        _reopen(ctx, lease_of(ctx, box))  # `down` may have cleared it while this waited for the lock
        yield _lease_for(ctx, box, need)


def _lease_for(ctx: Context, box: Box, need: Need) -> Lease:
    """The lease of the box's machine; of a site that rents none its open one, else one taken now. The token makes a
    second taking after a crash harmless.
    """
    known = lease_of(ctx, box)
    if box.provider.rents:
        if known is None or box.lease is None or not known.is_open or known.lease.token != box.lease.token:
            raise LetGo(lease=box.machine)
        return known.lease
    if known is not None:
        return known.lease
    before = [one for one in ctx.store.index.leases(open_only=False) if one.lease.site == box.site.name]
    offers = box.provider.offers(need)
    if not offers:
        raise NothingToRent(site=box.site.name)
    tell_clocks(ctx, box.site)
    if not offers[0].is_rate_known:
        for line in rates.words(box.site, box.provider.metered):
            ctx.say(line)
    lease = box.provider.take(offers[0], f"{box.site.name}-{len(before)}", ctx.now_s())
    assert isinstance(lease, Lease), lease  # it was there before
    # A meter that the settings say began earlier was counted until its last lease ended.
    counted_s = max((one.ended_s or 0.0 for one in before), default=0.0)
    lease = replace(lease, began_s=max(lease.began_s, counted_s))
    ctx.store.append("leased", lease=asdict(lease))
    return lease
