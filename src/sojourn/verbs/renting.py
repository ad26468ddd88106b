"""The lease that a run's money hangs on: the site's open one, or a new one, journaled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from sojourn.core.need import Need
from sojourn.core.values import Lease, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Box, Context
from sojourn.wire.errors import WorldError


class NothingToRent(WorldError):
    """Site {site} has nothing to offer that fits the job's `resources`."""

    code = "nothing-to-rent"
    next_step = "sojourn plan"


def open_lease(ctx: Context, site: Site) -> LeaseRecord | None:
    """The newest lease on this site that is not let go."""
    return next((one for one in reversed(ctx.store.index.leases()) if one.lease.site == site.name), None)


@contextmanager
def moving_in(ctx: Context, box: Box, need: Need) -> Iterator[Lease]:
    """The lease that a run goes onto: journal the run's `launching` inside. Meanwhile nobody lets go of it.

    Raises: NothingToRent, WorldError.
    """
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
    lease = box.provider.take(offers[0], f"{box.site.name}-{len(before)}", ctx.now_s())
    # A meter that the settings say began earlier was counted until its last lease ended.
    counted_s = max((one.ended_s or 0.0 for one in before), default=0.0)
    lease = replace(lease, began_s=max(lease.began_s, counted_s))
    ctx.store.append("leased", lease=asdict(lease))
    return lease


def _tell_clocks(ctx: Context, site: Site) -> None:
    """What will run against a metered machine, before its meter starts."""
    from sojourn.store.catalog import platform

    for clock in platform(site.platform).clocks if site.rate_micro_per_h else ():
        ctx.say(f"{site.name}: {clock.what} ({clock.at}); loses {clock.loses}")
