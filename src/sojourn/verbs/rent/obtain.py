"""`site: rent`: one machine from whoever offers the cheapest run, the next one where there is no capacity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sojourn.core.need import Need, fits
from sojourn.core.ports import Offer
from sojourn.core.ranking import Errand, ranked
from sojourn.core.values import Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.rent.machine import OF_ACCOUNT, UNSURE, NothingToRent, NotRented, goes_on, looked_for, rented
from sojourn.verbs.rent.market import NoProviderKey, Quote, ask_all, market
from sojourn.verbs.rent.nothing import NothingOffered, why_nothing
from sojourn.verbs.rent.price import OverMaxPrice, Wish, too_small, within
from sojourn.wire import units
from sojourn.wire.errors import SojournError

RENT = "rent"  # as `site`, or among `candidates`
FIRST_WAIT_S, SLOWER, SLOWEST_S = 60.0, 1.5, 600.0  # of `--wait`: every limit that a provider documents is far above


def obtain(ctx: Context, wish: Wish, sites: Sequence[Site] = ()) -> tuple[Site, str]:
    """(site, name of its lease) of a machine that is there: one that is rented and idle and has what is needed, else
    the best offer that can be had. Takes exactly one. `sites`: that may rent, () for all that a key is there for.

    `wish.waits`: asks again and again until something can be had. What may have been taken is found out first: only a
    plain no leads to the next offer.
    Raises: NoProviderKey, NothingOffered, OverMaxPrice, BudgetTooSmall, NotRented, and what `rented` raises.
    """
    pause_s = FIRST_WAIT_S
    while True:
        try:
            return _once(ctx, wish, sites)
        except (NothingOffered, NothingToRent, OverMaxPrice, NotRented) as error:
            if not wish.waits or error.fields.get("kind") in OF_ACCOUNT:
                raise
            pause_s = max(pause_s, error.fields.get("retry_after_s") or 0.0)
            ctx.say(f"{error.message} Asking again in {units.say_seconds(pause_s)}")
            ctx.sleep(pause_s)
            pause_s = min(pause_s * SLOWER, SLOWEST_S)


def best(ctx: Context, wish: Wish, sites: Sequence[Site] = ()) -> list[tuple[Site, Offer]]:
    """What could be had now within every limit, the cheapest run first. Asks all providers; rents nothing.

    Raises: NoProviderKey, NothingOffered, UnknownGpu, OverMaxPrice, BudgetTooSmall, the error of the only provider.
    """
    sites = sites or _market()
    quotes = ask_all(ctx, sites, wish.need)
    for one in quotes:
        if one.error:
            ctx.say(f"{one.site.name}: {one.error.message}")
    found: dict[int, Site] = {}
    for one in quotes:
        found.update((id(offer), one.site) for offer in within(one.site, one.offers, wish.most))
    kept = [offer for one in quotes for offer in one.offers if id(offer) in found]
    errand = Errand() if wish.run_s is None else Errand(run_s=wish.run_s)
    rows = [(found[id(one)], one) for one in ranked(kept, errand, _currency(wish))]
    if not rows:
        raise _nothing(quotes, wish)
    payable = [row for row in rows if too_small(row[1], wish) is None]
    if not payable:
        short = too_small(rows[0][1], wish)
        assert short is not None
        raise short
    return payable


def held(ctx: Context, wish: Wish, sites: Sequence[Site] = ()) -> LeaseRecord | None:
    """A machine that is rented now, or was asked for, and that a run of this need may take without asking: no run is
    unfinished on it, and its GPU is one that is needed. One that no run was ever on first, then the newest. `sites`: on
    these alone.
    """
    index = ctx.store.index
    idle: list[LeaseRecord] = []
    used: list[LeaseRecord] = []
    for one in reversed(index.leases()):
        if wish.lease:
            if one.name == wish.lease:
                return one
            continue
        if sites and one.lease.site not in [site.name for site in sites]:
            continue
        runs = index.runs_on(one.name)
        is_ours = bool(one.lease.token) and one.state in ("leasing", "open") and _rents(ctx, one.lease.site)
        if not is_ours or any(not run.is_settled for run in runs) or (runs and wish.another):
            continue
        if one.state == "leasing" or has(wish.need, one.lease.facts):
            (used if runs else idle).append(one)
    return next(iter([*idle, *used]), None)


def has(need: Need, facts: Mapping[str, Any]) -> bool:
    """Whether a machine has the GPUs that are needed, by its lease; what that does not say is seen once it is asked."""
    gpu, count = str(facts.get("gpu") or ""), facts.get("gpus")
    if not need.accelerators or not gpu:
        return True
    bare = [(re.sub(r"(?i)[- ]?\d+ ?GB", "", name), number) for name, number in need.accelerators]
    return any(fits(name, gpu.replace("_", " ")) and (count or number) >= number for name, number in bare)


def _once(ctx: Context, wish: Wish, sites: Sequence[Site]) -> tuple[Site, str]:
    there = held(ctx, wish, sites)
    if there is not None and there.state == "leasing":
        there = looked_for(ctx, ctx.site(there.lease.site), there)
    if there is not None:
        site = ctx.site(there.lease.site)
        rented(ctx, site, replace(wish, lease=there.name))
        return site, there.name
    last: NotRented | None = None
    closed: set[str] = set()  # providers that none of their offers can be had from now
    for site, offer in best(ctx, wish, sites):
        if site.name in closed:
            continue
        try:
            box = rented(ctx, site, wish, offer)
        except NotRented as error:
            if error.fields["kind"] == UNSURE:
                raise
            ctx.say(error.message)
            last = error
            if not goes_on(error):
                closed.add(site.name)
            continue
        return site, box.machine
    assert last is not None  # `best` has at least one
    raise last


def _rents(ctx: Context, name: str) -> bool:
    try:
        return provider_of(ctx.site(name)).rents
    except SojournError:  # its site is not in the settings any more
        return False


def _market() -> list[Site]:
    sites, without = market()
    if not sites:
        raise NoProviderKey(looked=", ".join(f"{env} ({name})" for name, env in sorted(without.items())))
    return sites


def _currency(wish: Wish) -> str:
    return (wish.most or wish.budget or (0, ""))[1]


def _nothing(quotes: Sequence[Quote], wish: Wish) -> SojournError:
    dear = [(one.site, offer) for one in quotes for offer in one.offers]
    return why_nothing(quotes, wish.need, dear, wish.most)
