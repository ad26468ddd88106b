"""`up`: rent a machine by a name, without a run yet. The first one on a platform teaches what that platform does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sojourn.core.need import Need
from sojourn.core.values import Lease, Site
from sojourn.store import platforms
from sojourn.store.settings import read_settings
from sojourn.verbs.answers import document, money
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.rent.machine import rented, woken
from sojourn.verbs.rent.market import market, with_spot
from sojourn.verbs.rent.obtain import obtain
from sojourn.verbs.rent.offers import survival
from sojourn.verbs.rent.price import Wish
from sojourn.wire.errors import Misuse, WorldError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class NotAMachine(Misuse):
    """{name!r} cannot be the name of a rented machine: {why}."""

    code = "not-a-machine"
    next_step = "sojourn up another-name"


@dataclass(frozen=True)
class Up:
    """A machine that is there. `did`: rented, or nothing where it was there before. `facts`: of its keeper's hello.

    `platform`: as in `offers`; `lessons`: what is peculiar there, () where another machine of it was rented before.
    """

    lease: str
    site: str
    provider: str
    address: str
    did: str
    rate: dict[str, Any] | None
    facts: dict[str, Any]
    platform: dict[str, Any]
    lessons: tuple[str, ...]
    next: str

    def as_json(self) -> dict[str, Any]:
        """The `up` document."""
        return document(self, "up")


def up(
    ctx: Context,
    name: str,
    *,
    need: Need | None = None,
    provider: str = "",
    is_spot: bool = False,
    max_price: tuple[int, str] | None = None,
    waits: bool = False,
) -> Up:
    """Rent a machine called `name`, from the site of that name or else from the best offer, and wait until it answers.

    The same again finds it, and wakes it where it is stopped.
    Raises: NotAMachine, what `obtain` raises, Misuse.
    """
    known = {one.name: one for one in ctx.store.index.leases()}
    before = {one.lease.name for one in ctx.store.index.leases(open_only=False) if one.lease.address}
    wish = Wish(need or Need(), most=max_price, lease=name, waits=waits, verb="up")
    there = known.get(name)
    if there is not None:
        site = ctx.site(there.lease.site)
        if not provider_of(site).rents:
            raise NotAMachine(name=name, why="that is a lease on a machine that sojourn did not rent")
        woken(ctx, site, there)
        box = rented(ctx, site, wish)
    else:
        sites = _sites(name, provider)
        site, lease_name = obtain(ctx, wish, [with_spot(one) for one in sites] if is_spot else sites)
        box = ctx.box(site, lease_name)
    lease = box.lease
    assert lease is not None  # it was reached
    is_new_there = not any(
        one.lease.provider == lease.provider and one.lease.name in before and one.lease.token != lease.token
        for one in ctx.store.index.leases(open_only=False)
    )
    try:
        facts = {key: value for key, value in box.answer("hello").value.items() if key != "ok"}
    except WorldError as error:
        facts = {"trouble": error.message}
    return Up(
        lease=lease.name,
        site=site.name,
        provider=site.provider,
        address=lease.address,
        did="nothing" if there is not None else "rented",
        rate=money(lease.rate_micro_per_h if lease.is_rate_known else None, lease.currency),
        facts=facts,
        platform=survival(site.platform),
        lessons=lessons(site, lease) if is_new_there else (),
        next=f"sojourn run --site {lease.name}",
    )


def lessons(site: Site, lease: Lease) -> tuple[str, ...]:
    """What a newcomer should know of the platform, a sentence each; from data/platforms."""
    told = platforms.document(site.platform)
    out = [str(quirk) for quirk in told.get("quirks", ())]
    for part, keys in (("detach", ("dies_on",)), ("network", ("proxy", "mirror")), ("ssh", ("note",))):
        table = told.get(part, {})
        out += [f"{key.replace('_', ' ')}: {table[key]}" for key in keys if table.get(key) not in (None, "", "unknown")]
    return tuple(out)


def _sites(name: str, provider: str) -> list[Site]:
    """The site of that name, else all that may rent."""
    if not _NAME.fullmatch(name) or name in ("local", "rent"):
        raise NotAMachine(name=name, why="use letters, digits, '.', '_', '-', at most 63, and neither local nor rent")
    own = read_settings().sites.get(name)
    if own is not None and not provider_of(own).rents:
        raise NotAMachine(name=name, why="a site of your settings that is not rented is called so")
    if own is not None:
        return [own]
    return market(provider)[0]
