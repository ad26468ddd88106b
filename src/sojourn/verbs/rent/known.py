"""What bears this client's mark at a provider, and no lease of the journal has: found before anything is rented.

A machine may be there that the journal does not know: its folder was lost, a list had lagged when it was looked for, or
something on the way sent a request twice.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from sojourn.core.inventory import Asset, Claim, Inventory, Standing, Verdict, client_of, compare
from sojourn.core.ports import Provider
from sojourn.core.values import Lease, NoAnswer, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.context import Context
from sojourn.wire.errors import Refusal, Unreachable


class Unrecorded(Refusal):
    """{provider} has {machines}, which this client rented and has no record of. Nothing more was rented."""

    code = "unrecorded-machine"
    next_step = "sojourn recover {site}"


class ListUnread(Unreachable):
    """Whether {provider} has a machine of ours already is not known: {detail}. Nothing was rented."""

    code = "list-unread"
    next_step = "the same command again"


def this_client() -> str:
    """The digest of user@host that our marks hold."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name
        user = str(os.getuid())
    return client_of(user, socket.gethostname())


def claim_of(record: LeaseRecord) -> Claim:
    """What the journal says of a lease, as far as a provider's list can tell of it."""
    lease = record.lease
    standing = Standing.ASKED if record.state == "leasing" else Standing.OPEN if record.is_open else Standing.CLOSED
    if record.was_kept:
        standing = Standing.KEPT
    return Claim(record.name, lease.token, lease.native, standing)


def claims_on(ctx: Context, provider: str) -> tuple[list[Claim], list[LeaseRecord]]:
    """All leases of a provider that its list could show, the journal's whole past: as claims, and their records."""
    known = [one for one in ctx.store.index.leases(open_only=False) if one.lease.provider == provider]
    records = [one for one in known if one.lease.native or one.lease.token]
    return [claim_of(one) for one in records], records


def unrecorded(ctx: Context, site: Site, provider: Provider) -> list[Asset]:
    """The machines at a provider that are this client's by their mark, and are no lease's.

    Raises: ListUnread, WorldError. Of an older plug without a list nothing is known.
    """
    if not provider.rents or not hasattr(provider, "list"):
        return []
    listed: Inventory = provider.list(("machine",))
    for kind, why in listed.unknown:
        if kind == "machine":
            raise ListUnread(provider=site.provider, detail=why)
    found = compare(claims_on(ctx, site.provider)[0], listed.assets, this_client())
    asked = {one.lease.token for one in ctx.store.index.leases() if one.state == "leasing"}
    mine = [one.asset for one in found if one.verdict is Verdict.UNRECORDED and one.asset]
    return [one for one in mine if one.name not in asked]  # those are looked for by their token


def taken_up(
    ctx: Context, site: Site, provider: Provider, free_name: Callable[[], str], *, all_of_them: bool
) -> list[Lease]:
    """Such machines as leases from now on: those whose token the journal has, or `all_of_them`. Called alone on the
    site. Raises: Unrecorded for the others, ListUnread, WorldError.
    """
    tokens = {claim.token for claim in claims_on(ctx, site.provider)[0]}
    there = unrecorded(ctx, site, provider)
    mine = [one for one in there if all_of_them or one.name in tokens]
    leases = [lease for one in mine if (lease := _lease_on(ctx, provider, one)) is not None]
    out = []
    for lease in leases:
        kept = replace(lease, name=free_name(), site=site.name)
        ctx.store.append("leased", lease=asdict(kept))
        ctx.say(f"{site.provider} has {kept.native} of ours, which was on no record: it is {kept.name} from now on")
        out.append(kept)
    strange = [one for one in there if one not in mine]
    if strange:
        named = ", ".join(f"{one.native} ({one.name})" for one in strange)
        raise Unrecorded(provider=site.provider, site=site.name, machines=named)
    return out


def _lease_on(ctx: Context, provider: Provider, asset: Asset) -> Lease | None:
    found = found_by(provider, asset.name, ctx.now_s())
    if isinstance(found, NoAnswer):
        return None
    return next((one for one in found if one.native == asset.native), None)


def found_by(provider: Provider, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
    """`provider.find`; an older plug answers with one lease, or None."""
    answer: Any = provider.find(token, now_s)
    if isinstance(answer, Lease):
        return (answer,)
    return () if answer is None else cast("Sequence[Lease] | NoAnswer", answer)
