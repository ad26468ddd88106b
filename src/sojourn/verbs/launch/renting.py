"""The lease that a run's money hangs on: the site's open one, or a new one, journaled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from sojourn.core.need import Need
from sojourn.core.values import Lease, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.answers import Ask
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import rates
from sojourn.wire.errors import WorldError


class NothingToRent(WorldError):
    """Site {site} offers nothing that fits the job's `resources`."""

    code = "nothing-to-rent"
    next_step = "sojourn plan"


def open_lease(ctx: Context, site: Site) -> LeaseRecord | None:
    """The newest lease on this site that is not let go."""
    return next((one for one in reversed(ctx.store.index.leases()) if one.lease.site == site.name), None)


def is_cleared(record: LeaseRecord) -> bool:
    """It was cleared, and its user was told to stop it: whether its machine still runs is not known."""
    return record.state == "releasing" and record.has_stop


def reopen(ctx: Context, site: Site) -> None:
    """Where the site's lease was cleared to be stopped: ask whether something is to start on it all the same, and
    journal that it is open again. Otherwise nothing is asked.   Raises: NotConfirmed; then nothing was changed.
    """
    record = open_lease(ctx, site)
    if record is None or not is_cleared(record):
        return
    from sojourn.verbs.confirm import confirmed

    lease, name = record.lease, record.name
    lines = (
        f"{name} was cleared to stop ({lease.stop_verb}) but is not recorded as stopped",
        "anything you start there is lost when it stops; its meter keeps running until then",
        f"if it is already stopped, record that instead: sojourn down {name} --already-stopped",
    )
    with ctx.alone(f"lease {site.name}"):
        confirmed(ctx.confirm, Ask("run", name, lines, f"the same command with --confirm {name}"))
        now = ctx.store.index.lease(name)
        if now is not None and is_cleared(now):
            ctx.store.append("reopened", lease=name)


@contextmanager
def moving_in(ctx: Context, box: Box, need: Need) -> Iterator[Lease]:
    """The lease that a run goes onto: journal the run's `launching` inside. Meanwhile nobody lets go of it.

    Raises: NothingToRent, NotConfirmed, WorldError.
    """
    reopen(ctx, box.site)
    with ctx.alone(f"lease {box.site.name}"):
        yield _lease_for(ctx, box, need)


def _lease_for(ctx: Context, box: Box, need: Need) -> Lease:
    """The site's open lease, else one taken now; the token makes a second taking after a crash harmless."""
    known = open_lease(ctx, box.site)
    if known is not None:
        return known.lease
    before = [one for one in ctx.store.index.leases(open_only=False) if one.lease.site == box.site.name]
    offers = box.provider.offers(need)
    if not offers:
        raise NothingToRent(site=box.site.name)
    _tell_clocks(ctx, box.site)
    if not offers[0].is_rate_known:
        for line in rates.words(box.site, box.provider.metered):
            ctx.say(line)
    lease = box.provider.take(offers[0], f"{box.site.name}-{len(before)}", ctx.now_s())
    # A meter that the settings say began earlier was counted until its last lease ended.
    counted_s = max((one.ended_s or 0.0 for one in before), default=0.0)
    lease = replace(lease, began_s=max(lease.began_s, counted_s))
    ctx.store.append("leased", lease=asdict(lease))
    return lease


def _tell_clocks(ctx: Context, site: Site) -> None:
    """What will run against a metered machine, before its meter starts."""
    from sojourn.store.catalog import platform

    for clock in platform(site.platform).clocks if site.rate_micro_per_h or site.provider != "unmetered" else ():
        ctx.say(f"{site.name}: {clock.what} ({clock.at}); loses {clock.loses}")
