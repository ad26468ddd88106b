"""The lease that a run's money hangs on: the site's open one, or a new one, journaled.

Where the provider rents machines the lease comes before all else: its intent is journaled with a random token, the
machine asked for once, and whatever became of that is found out by the token before anything is asked for again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from sojourn.core.need import Need
from sojourn.core.ports import Provider, Rejected
from sojourn.core.values import Lease, NoAnswer, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.confirm import Ask, confirmed
from sojourn.verbs.context import CALL_S, Box, Context, provider_of
from sojourn.verbs.launch import rates
from sojourn.verbs.launch.price import Wish, agree, cheapest
from sojourn.wire.errors import Unreachable, WorldError

FIND_S, LOOK_S = 60.0, 3.0  # how long, and how often, a machine is looked for in its provider's list
_NOT_LISTED = "its list has no machine of that name"
READY_S = 900.0  # making a machine takes minutes; where images are large, ten


class NothingToRent(WorldError):
    """Site {site} offers nothing that fits the job's `resources`."""

    code = "nothing-to-rent"
    next_step = "sojourn plan"


class NotRented(WorldError):
    """{provider} rented nothing for {site}: {why}. It costs nothing."""

    code = "not-rented"
    retry = True
    next_step = "sojourn run"


class RentUnknown(Unreachable):
    """{site} may have rented a machine named {token}, which would cost money: {detail}."""

    code = "rent-unknown"
    retry = True
    next_step = "sojourn run (again: it looks for that machine first), and look at the provider's console"


class LetGo(WorldError):
    """{lease} was released: its machine is gone, or will be. Nothing was started."""

    code = "lease-let-go"
    retry = True
    next_step = "sojourn run"


class NotReady(WorldError):
    """{lease} was rented {seconds} s ago and cannot be reached yet: {detail}. Its meter runs."""

    code = "not-ready"
    retry = True
    next_step = "sojourn run (keeps waiting for it), or sojourn down {lease}"


def open_lease(ctx: Context, site: Site) -> LeaseRecord | None:
    """The newest lease on this site that is not let go."""
    return next(iter(_open_leases(ctx, site)), None)


def lease_of(ctx: Context, box: Box) -> LeaseRecord | None:
    """The open lease that a run on this box would go onto: that of its machine, where it is rented."""
    return open_lease(ctx, box.site) if box.lease is None else ctx.store.index.lease(box.lease.name)


def is_to_rent(ctx: Context, site: Site, another: bool = False) -> bool:
    """Its provider rents, and has no machine for it that can be reached; `another`: none that no run was ever on."""
    if not provider_of(site).rents:
        return False
    record = rented_already(ctx, site, another)
    return record is None or not record.lease.address


def rented_already(ctx: Context, site: Site, another: bool = False) -> LeaseRecord | None:
    """The open lease that `rented` would take; it may be one that was only asked for."""
    return _unused(ctx, site) if another else open_lease(ctx, site)


def is_cleared(record: LeaseRecord) -> bool:
    """It was cleared, and its user was told to stop it: whether its machine still runs is not known."""
    return record.state == "releasing" and record.has_stop


def reopen(ctx: Context, box: Box) -> None:
    """Where the box's lease was cleared to be stopped: ask whether something is to start on it all the same, and
    journal that it is open again. Otherwise nothing is asked.   Raises: NotConfirmed; then nothing was changed.
    """
    record = lease_of(ctx, box)
    if record is None or not is_cleared(record):
        return
    lease, name = record.lease, record.name
    lines = (
        f"{name} was cleared to stop ({lease.stop_verb}) but is not recorded as stopped",
        "anything you start there is lost when it stops; its meter keeps running until then",
        f"if it is already stopped, record that instead: sojourn down {name} --already-stopped",
    )
    with ctx.alone(f"lease {name}"):
        confirmed(ctx.confirm, Ask("run", name, lines, f"the same command with --confirm {name}"))
        now = ctx.store.index.lease(name)
        if now is not None and is_cleared(now):
            ctx.store.append("reopened", lease=name)


def rented(ctx: Context, site: Site, wish: Wish) -> Box:
    """A machine of a site whose provider rents, reached: the newest that it has, else a new one that the user agrees to
    pay for. `wish.another`: one that no run was ever on.

    Cut off anywhere, the same again finds what was asked for by its token.
    Raises: NothingToRent, OverMaxPrice, NotConfirmed, NotWithinLimits, NotRented, RentUnknown, NotReady, Misuse,
    WorldError.
    """
    provider = provider_of(site)
    with ctx.alone(f"renting {site.name}"):
        lease: Lease | None = None
        while lease is None:
            record = rented_already(ctx, site, wish.another)
            if record is None:
                lease = _asked_for(ctx, provider, site, wish)
            else:
                lease = _found(ctx, provider, record.lease) if record.state == "leasing" else record.lease
    if not lease.address:
        with ctx.alone(f"lease {lease.name}"):
            now = ctx.store.index.lease(lease.name)  # others may have waited for it too, or released it
            if now is None or not now.is_open:
                raise LetGo(lease=lease.name)
            if not now.lease.address:
                _reached(ctx, provider, now.lease)
    return ctx.box(site, lease.name)


def is_idle_there(ctx: Context, site: Site) -> bool:
    """A machine was rented for this site, and no run was ever on it."""
    return provider_of(site).rents and _unused(ctx, site) is not None


def _open_leases(ctx: Context, site: Site) -> list[LeaseRecord]:
    return [one for one in reversed(ctx.store.index.leases()) if one.lease.site == site.name]


def _unused(ctx: Context, site: Site) -> LeaseRecord | None:
    return next((one for one in _open_leases(ctx, site) if not ctx.store.index.runs_on(one.name)), None)


def _free_name(ctx: Context, site: Site) -> str:
    """The site's name, or SITE+2 and so on (no site is called so): not that of an open lease, nor of one that a run was
    on whose end is not known.
    """
    index = ctx.store.index
    taken = {one.name for one in index.leases()} | {run.lease for run in index.runs() if not run.is_settled}
    numbered = (f"{site.name}+{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([site.name], numbered) if name not in taken)


def looked_for(ctx: Context, site: Site, record: LeaseRecord) -> LeaseRecord | None:
    """A lease whose taking was cut off, with what its provider's list says of it; None where nothing was rented.

    Raises: RentUnknown, WorldError.
    """
    with ctx.alone(f"renting {site.name}"):
        now = ctx.store.index.lease(record.name) or record
        if now.state == "leasing" and _found(ctx, provider_of(site), now.lease) is None:
            return None
        return ctx.store.index.lease(record.name)


def _asked_for(ctx: Context, provider: Provider, site: Site, wish: Wish) -> Lease:
    offer, token, name = cheapest(site, provider.offers(wish.need)), f"sojourn-{ctx.token()}", _free_name(ctx, site)
    if offer is None:
        raise NothingToRent(site=site.name)
    _tell_clocks(ctx, site)
    agree(ctx, site, name, offer, wish)
    asked = Lease(
        name=name,
        site=site.name,
        provider=site.provider,
        native="",
        rate_micro_per_h=offer.rate_micro_per_h,
        currency=offer.currency,
        began_s=ctx.now_s(),
        stop_verb=provider.stop_verb,
        is_final=provider.is_final,
        is_rate_known=offer.is_rate_known,
        token=token,
    )
    ctx.store.append("leasing", lease=asdict(asked), offer=offer.native)
    ctx.say(f"{site.name}: renting {offer.native}")
    answer = provider.take(offer, token, ctx.now_s())
    if isinstance(answer, Lease):
        return _kept(ctx, answer, asked)
    if isinstance(answer, Rejected):
        ctx.store.append("not-leased", lease=asked.name, why=answer.why)
        raise NotRented(provider=site.provider, site=site.name, why=answer.why)
    ctx.say(f"{site.name}: whether it was rented is not known ({answer.detail}); looking for it")
    found = _found(ctx, provider, asked)
    if found is None:
        raise NotRented(provider=site.provider, site=site.name, why=_NOT_LISTED)
    return found


def _found(ctx: Context, provider: Provider, asked: Lease) -> Lease | None:
    """What became of a taking of which nobody knows, None for nothing; a provider's list may lag behind what it took.

    Raises: RentUnknown.
    """
    give_up_s = ctx.now_s() + FIND_S
    while True:
        answer = provider.find(asked.token, ctx.now_s())
        if isinstance(answer, Lease):
            return _kept(ctx, answer, asked)
        if ctx.now_s() >= give_up_s:
            break
        ctx.sleep(LOOK_S)
    if isinstance(answer, NoAnswer):
        raise RentUnknown(site=asked.site, detail=f"{asked.provider} does not answer: {answer.kind}", token=asked.token)
    ctx.store.append("not-leased", lease=asked.name, why=_NOT_LISTED)
    return None


def _kept(ctx: Context, lease: Lease, asked: Lease) -> Lease:
    """The lease journaled, under the name that the intent has; its meter runs at least since it was asked for."""
    began_s = min(lease.began_s, asked.began_s)
    lease = replace(lease, name=asked.name, site=asked.site, token=asked.token, began_s=began_s)
    ctx.store.append("leased", lease=asdict(lease))
    return lease


def _reached(ctx: Context, provider: Provider, lease: Lease) -> Lease:
    began_s = ctx.now_s()
    give_up_s = began_s + READY_S
    while True:
        answer = provider.ready(lease, CALL_S)
        if isinstance(answer, Lease):
            return _kept(ctx, answer, lease)
        if ctx.now_s() >= give_up_s:
            raise NotReady(lease=lease.name, seconds=round(ctx.now_s() - lease.began_s), detail=answer.detail)
        ctx.say(f"{lease.name}: waiting for its machine ({answer.detail or answer.kind})")
        ctx.sleep(LOOK_S)


@contextmanager
def moving_in(ctx: Context, box: Box, need: Need) -> Iterator[Lease]:
    """The lease that a run goes onto: journal the run's `launching` inside. Meanwhile nobody lets go of it.

    Raises: NothingToRent, LetGo, NotConfirmed, WorldError.
    """
    reopen(ctx, box)
    with ctx.alone(f"lease {box.machine}"):
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
    _tell_clocks(ctx, box.site)
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


def _tell_clocks(ctx: Context, site: Site) -> None:
    """What will run against a metered machine, before its meter starts."""
    from sojourn.store.catalog import platform

    for clock in platform(site.platform).clocks if site.rate_micro_per_h or site.provider != "unmetered" else ():
        ctx.say(f"{site.name}: {clock.what} ({clock.at}); loses {clock.loses}")
