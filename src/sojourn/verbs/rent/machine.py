"""A machine of a site whose provider rents: found by what the journal has of it, or asked for once, and waited for.

Its intent is journaled with a random token before it is asked for, and whatever became of that is found out by the
token before anything is asked for again.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace

from sojourn.core.inventory import token_of
from sojourn.core.ports import Offer, Provider, Rejected
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import CALL_S, Box, Context, provider_of
from sojourn.verbs.rent.gone import release_unused
from sojourn.verbs.rent.known import found_by, taken_up, this_client
from sojourn.verbs.rent.price import READY_S, Wish, agree, cheapest, within
from sojourn.wire.errors import Unreachable, WorldError

WATCH_S = 300.0  # after a request whose answer was lost, nobody says that it came to nothing
FIND_S, LOOK_S = 60.0, 3.0  # how long, and how often, a machine is looked for in its provider's list
HELLO_S = 60.0  # for a first hello, which may have to bring the keeper there
MOST_OFFERS = 8  # of one provider that are asked for, where each is gone by the time it is asked for
OF_ACCOUNT = ("balance", "key", "unsure")
UNSURE = "unsure"  # in place of a kind: nobody said no
MOST_WAIT_S = 60.0  # for a provider that asks to be asked less often
_NOT_LISTED = "its list has no machine of that name"
_BOOTING = ("auth", "banner", "refused", "reset", "timeout")  # what a machine says that is not yet done with its boot


class NothingToRent(WorldError):
    """Site {site} offers nothing that fits the job's `resources`."""

    code = "nothing-to-rent"
    next_step = "sojourn plan"


class NotRented(WorldError):
    """Nothing was rented from {provider} for {site}: {why}. There is no charge."""

    # `kind` and `retry_after_s` in the fields, as in `Rejected`.
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


class NeverAnswered(WorldError):
    """{lease} never answered ({why}), so it was released, as agreed: {line}. Nothing was started."""

    code = "never-answered"
    retry = True
    next_step = "sojourn run"


def open_lease(ctx: Context, site: Site) -> LeaseRecord | None:
    """The newest lease on this site that is not let go."""
    return next(iter(_open_leases(ctx, site)), None)


def rented_already(ctx: Context, site: Site, wish: Wish) -> LeaseRecord | None:
    """The open lease that `rented` would take; it may be one that was only asked for."""
    mine = [one for one in _open_leases(ctx, site) if wish.lease in ("", one.name)]
    if wish.another:
        mine = [one for one in mine if not ctx.store.index.runs_on(one.name)]
    return next(iter(mine), None)


def is_to_rent(ctx: Context, site: Site, wish: Wish) -> bool:
    """Its provider rents, and has no machine for it that can be reached; `wish.another`: none that no run was on."""
    if not provider_of(site).rents:
        return False
    record = rented_already(ctx, site, wish)
    return record is None or not record.lease.address


def rented(ctx: Context, site: Site, wish: Wish, offer: Offer | None = None) -> Box:
    """A machine of a site whose provider rents, reached: the newest that it has, else a new one that the user agrees to
    pay for. `wish.another`: one that no run was ever on. `offer`: a new one, which was chosen already.

    Cut off anywhere, the same again finds what was asked for by its token. A new one that never gets ready is released
    where its user agreed to that by its name.
    Raises: NothingToRent, OverMaxPrice, NotConfirmed, NotWithinLimits, NotRented, RentUnknown, NotReady, NeverAnswered,
    Misuse, WorldError.
    """
    provider, named = provider_of(site), ""
    with ctx.alone(f"renting {site.name}"):
        lease: Lease | None = None
        while lease is None:
            record = rented_already(ctx, site, wish) if offer is None else None
            if record is None:
                late = taken_up(ctx, site, provider, lambda: free_name(ctx, site, wish.lease), all_of_them=False)
                lease, named = (late[0], "") if late else _asked_for(ctx, provider, site, wish, offer)
            else:
                lease = _found(ctx, provider, record.lease) if record.state == "leasing" else record.lease
    if not lease.address:
        with ctx.alone(f"lease {lease.name}"):
            now = ctx.store.index.lease(lease.name)  # others may have waited for it too, or released it
            if now is None or not now.is_open:
                raise LetGo(lease=lease.name)
            if not now.lease.address:
                _reached(ctx, provider, site, now, named)
    return ctx.box(site, lease.name)


def is_idle_there(ctx: Context, site: Site) -> bool:
    """A machine was rented for this site, and no run was ever on it."""
    return provider_of(site).rents and rented_already(ctx, site, Wish(another=True)) is not None


def _open_leases(ctx: Context, site: Site) -> list[LeaseRecord]:
    return [one for one in reversed(ctx.store.index.leases()) if one.lease.site == site.name]


def free_name(ctx: Context, site: Site, wanted: str) -> str:
    """`wanted`, else the site's name, or NAME+2 and so on (no site is called so): not that of an open lease, nor of one
    that a run was on whose end is not known.
    """
    index = ctx.store.index
    taken = {one.name for one in index.leases()} | {
        run.lease for run in index.runs() if not run.is_settled and not run.has_vanished
    }
    first = wanted or site.name
    numbered = (f"{first}+{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([first], numbered) if name not in taken)


def looked_for(ctx: Context, site: Site, record: LeaseRecord) -> LeaseRecord | None:
    """A lease whose renting was interrupted, completed from its provider's list; None if nothing was rented.

    Raises: RentUnknown, WorldError.
    """
    with ctx.alone(f"renting {site.name}"):
        now = ctx.store.index.lease(record.name) or record
        if now.state == "leasing" and _found(ctx, provider_of(site), now.lease) is None:
            return None
        return ctx.store.index.lease(record.name)


def _asked_for(ctx: Context, provider: Provider, site: Site, wish: Wish, offer: Offer | None) -> tuple[Lease, str]:
    """The lease that was taken, and the name by which its user agreed to it, "" where nobody was asked.

    Without an `offer`, those within the limits are asked for, cheapest first, until one can be had.
    """
    if offer is not None:
        return _taken(ctx, provider, site, wish, offer)
    offers = provider.offers(wish.need)
    cheapest(site, offers, wish.most)
    refused: NotRented | None = None
    for one in within(site, offers, wish.most)[:MOST_OFFERS]:
        try:
            return _taken(ctx, provider, site, wish, one)
        except NotRented as error:
            refused = error
            if not goes_on(error):
                break
            ctx.say(error.message)
    raise refused or NothingToRent(site=site.name)


def goes_on(error: NotRented) -> bool:
    """Whether the provider that said no may be asked for its next offer: what its account lacks, none changes."""
    return error.fields["kind"] not in (*OF_ACCOUNT, "rate")


def _taken(ctx: Context, provider: Provider, site: Site, wish: Wish, offer: Offer) -> tuple[Lease, str]:
    """One offer asked for; once more, with another token, by a provider that says when it may be asked again.

    Raises: NotRented, RentUnknown, NotConfirmed, ...
    """
    name = free_name(ctx, site, wish.lease)
    tell_clocks(ctx, site)
    named = agree(ctx, site, name, offer, wish)
    try:
        return _tried(ctx, provider, site, name, offer), named
    except NotRented as error:
        wait_s = error.fields["retry_after_s"]
        if wait_s is None or wait_s > MOST_WAIT_S:
            raise
        ctx.say(f"{error.message} Asking again in {wait_s:g} s")
    ctx.sleep(wait_s)
    return _tried(ctx, provider, site, name, offer), named


def _tried(ctx: Context, provider: Provider, site: Site, name: str, offer: Offer) -> Lease:
    """One request, with a token of its own. Raises: NotRented, RentUnknown."""
    token = token_of(this_client(), ctx.token())
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
        raise NotRented(
            provider=site.provider,
            site=site.name,
            why=answer.why,
            kind=answer.kind,
            retry_after_s=answer.retry_after_s,
        )
    ctx.say(f"{site.name}: whether it was rented is not known ({answer.detail}); looking for it")
    found = _found(ctx, provider, asked)
    if found is None:
        raise NotRented(provider=site.provider, site=site.name, why=_NOT_LISTED, kind=UNSURE, retry_after_s=None)
    return found


def _found(ctx: Context, provider: Provider, asked: Lease) -> Lease | None:
    """What became of a taking of which nobody knows, None for nothing; a provider's list may lag behind what it took.

    Raises: RentUnknown.
    """
    give_up_s = ctx.now_s() + FIND_S
    while True:
        answer = found_by(provider, asked.token, ctx.now_s())
        if not isinstance(answer, NoAnswer) and answer:
            first, *others = answer
            kept = _kept(ctx, first, asked)
            for one in others:  # something on the way repeated the request
                also = _kept(ctx, one, replace(asked, name=free_name(ctx, ctx.site(asked.site), "")))
                ctx.say(f"{asked.provider} rented {also.native} too, by the same request: it is {also.name}, and bills")
            return kept
        if ctx.now_s() >= give_up_s:
            break
        ctx.sleep(LOOK_S)
    if isinstance(answer, NoAnswer):
        raise RentUnknown(site=asked.site, detail=f"{asked.provider} does not answer: {answer.kind}", token=asked.token)
    if ctx.now_s() - asked.began_s < WATCH_S:
        raise RentUnknown(site=asked.site, detail=f"{_NOT_LISTED} yet, and a list may lag", token=asked.token)
    ctx.store.append("not-leased", lease=asked.name, why=_NOT_LISTED)
    return None


def _kept(ctx: Context, lease: Lease, asked: Lease) -> Lease:
    """The lease journaled, under the name that the intent has; its meter runs at least since it was asked for."""
    began_s = min(lease.began_s, asked.began_s)
    lease = replace(lease, name=asked.name, site=asked.site, token=asked.token, began_s=began_s)
    ctx.store.append("leased", lease=asdict(lease))
    return lease


def _reached(ctx: Context, provider: Provider, site: Site, record: LeaseRecord, named: str) -> None:
    """Wait until the machine has an address and its keeper says hello; READY_S in all."""
    from sojourn.backends.client.answers import MachineFailed

    lease, give_up_s = record.lease, ctx.now_s() + READY_S
    try:
        while not isinstance(answer := provider.ready(lease, CALL_S), Lease):
            _wait(ctx, lease, give_up_s, answer)
        _greet(ctx, site, _kept(ctx, answer, lease), give_up_s)
    except (NotReady, MachineFailed) as error:
        if not named:
            raise
        why = error.fields.get("detail") or error.fields.get("why") or error.code
        now = ctx.store.index.lease(lease.name) or record
        line = release_unused(ctx, provider, now, named)
        raise NeverAnswered(lease=lease.name, why=why, line=line) from error


def woken(ctx: Context, site: Site, record: LeaseRecord) -> None:
    """Return once a machine that its provider calls stopped runs again and was reached; of any other, at once.

    Raises: CannotWake, NotReady, MachineFailed, WorldError.
    """
    provider, lease = provider_of(site), record.lease
    if not lease.address or provider.look(lease) is not Pulse.STOPPED:
        return
    with ctx.alone(f"lease {lease.name}"):
        ctx.say(provider.wake(lease))
        _reached(ctx, provider, site, record, "")


def _greet(ctx: Context, site: Site, lease: Lease, give_up_s: float) -> None:
    """Wait until its keeper says hello, and journal that it did: an sshd may answer before it lets anybody in."""
    box = ctx.box(site, lease.name)
    if not box.is_blind:
        try:
            while isinstance(answer := box.ask("hello", timeout_s=HELLO_S), NoAnswer) and answer.kind in _BOOTING:
                _wait(ctx, lease, give_up_s, answer)
        except NotReady:
            raise
        except WorldError:  # it answers; what is wrong with it is said to who uses it
            answer = None
        if isinstance(answer, NoAnswer):
            return
    _kept(ctx, replace(lease, facts={**lease.facts, "answered_s": ctx.now_s()}), lease)


def _wait(ctx: Context, lease: Lease, give_up_s: float, answer: NoAnswer) -> None:
    if ctx.now_s() >= give_up_s:
        raise NotReady(
            lease=lease.name, seconds=round(ctx.now_s() - lease.began_s), detail=answer.detail or answer.kind
        )
    ctx.say(f"{lease.name}: waiting for its machine ({answer.detail or answer.kind})")
    ctx.sleep(LOOK_S)


def tell_clocks(ctx: Context, site: Site) -> None:
    """What will run against a metered machine, before its meter starts."""
    from sojourn.store.catalog import platform

    for clock in platform(site.platform).clocks if site.rate_micro_per_h or site.provider != "unmetered" else ():
        ctx.say(f"{site.name}: {clock.what} ({clock.at}); loses {clock.loses}")
