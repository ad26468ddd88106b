"""Machines that bear this client's mark at a provider, and that no lease of the journal has. Asks; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.backends.client.https import patient_for
from sojourn.core.values import Site
from sojourn.verbs.answers import money
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.rent.known import unrecorded
from sojourn.wire.errors import SojournError

ASK_S = 10.0  # each provider; one that does not answer is said to be unasked
Rows = tuple[Mapping[str, Any], ...]


def machines_without_a_lease(ctx: Context) -> tuple[Rows, tuple[str, ...], Rows]:
    """(machines: {"provider", "native", "name", "state", "rate", "next"}; sites that were asked; those that were not,
    with why): all accounts that a key is known for, once each.   Raises: BadSettings.
    """
    from sojourn.verbs.observe.audit import accounts_of

    found: list[Mapping[str, Any]] = []
    asked: list[str] = []
    unasked: list[Mapping[str, Any]] = []
    accounts, blank = accounts_of(ctx)
    unasked += [{"provider": one.provider, "why": one.why} for one in blank]
    for account in accounts:
        first: Site = account.sites[0]
        ctx.say(f"asking {first.provider} for machines of ours")
        try:
            with patient_for(ASK_S):
                strange = unrecorded(ctx, first, provider_of(first))
        except SojournError as error:
            unasked.append({"provider": first.provider, "why": error.message})
            continue
        asked.append(first.provider)
        for one in strange:
            rate = money(one.rate_micro_per_h, one.currency)
            row = {"provider": first.provider, "native": one.native, "name": one.name, "state": one.state or None}
            found.append({**row, "rate": rate, "next": f"sojourn recover {first.name}"})
    return tuple(found), tuple(asked), tuple(unasked)
