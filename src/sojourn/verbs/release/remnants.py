"""What still bills after a machine was released: its disk, volumes, snapshots, addresses, with price and command.

Asked of the provider's own lists, before the release for what belongs to the machine, and after it for what stayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.core.inventory import Asset, Inventory, Verdict, compare, left_of
from sojourn.core.values import Lease
from sojourn.verbs.answers import money
from sojourn.verbs.context import Box, Context
from sojourn.verbs.rent.known import claims_on, this_client
from sojourn.wire.errors import SojournError

UNREAD = "whether anything else of it bills is not known"


@dataclass(frozen=True)
class Remnants:
    """`billing`: what stayed, as in `Down.billing`. `unknown`: what could not be listed, "" for nothing."""

    billing: tuple[Mapping[str, Any], ...] = ()
    unknown: str = ""


def beside(box: Box, lease: Lease) -> tuple[Asset, ...]:
    """What belongs to a machine that is still there, as far as its provider tells; () where nobody does."""
    provider: Any = box.provider
    try:
        if hasattr(provider, "beside"):
            return tuple(provider.beside(lease))
        return () if not hasattr(provider, "list") else tuple(provider.list().assets)
    except SojournError:
        return ()


def remnants(ctx: Context, box: Box, lease: Lease, before: Sequence[Asset] = ()) -> Remnants:
    """What of the machine is still listed now that it is gone, or stopped, and machines of ours on no record. `before`:
    of `beside`.
    """
    provider: Any = box.provider
    if not provider.rents or not lease.native or not hasattr(provider, "list"):
        return Remnants()
    try:
        now: Inventory = provider.list()
    except SojournError as error:
        return Remnants(unknown=f"{UNREAD}: {error.message}")
    known = {(one.kind, one.native): one for one in before}
    found: list[Mapping[str, Any]] = []
    claims, _ = claims_on(ctx, lease.provider)
    also = [one.asset for one in compare(claims, now.assets, this_client()) if one.verdict is Verdict.UNRECORDED]
    found += [{**_plain(one), "next": f"sojourn recover {lease.site}"} for one in also if one is not None]
    for one in left_of(lease.native, before, now.assets):
        was = known.get((one.kind, one.native))
        price = one.micro_per_month if one.month_micro is not None or was is None else was.micro_per_month
        command = one.command
        if one.kind == "machine" and not lease.is_final:
            command = f"end {one.native} in the console of {lease.provider}"
        found.append(_plain(replace(one, micro_per_month=price, command=command)))
    kinds = [kind for kind, _ in now.unknown] + list(now.unlisted)
    return Remnants(tuple(found), f"{UNREAD}: {', '.join(kinds)} could not be listed" if kinds else "")


def _plain(one: Asset) -> Mapping[str, Any]:
    return {
        "kind": one.kind,
        "native": one.native,
        "name": one.name or None,
        "state": one.state or None,
        "month": money(one.month_micro, one.currency),
        "next": one.command or None,
    }
