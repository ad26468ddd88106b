"""What is left on the accounts that open leases draw from, and how long that lasts; asks their providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sojourn.core.values import NoAnswer
from sojourn.store.records import LeaseRecord
from sojourn.verbs.answers import LeaseRow, money
from sojourn.verbs.context import Context, provider_of
from sojourn.wire.errors import SojournError

UNTOLD = "its API does not tell; look at its console"


def balances(
    ctx: Context, records: Iterable[LeaseRecord], rows: Mapping[str, LeaseRow]
) -> tuple[Mapping[str, Any], ...]:
    """One for each account of open leases on rented machines: {"provider", "leases", "balance", "lasts_s", "why"}.

    `lasts_s`: at the rate of these leases together, beside which the account may pay for more; null where a rate or
    the balance is not known, then `why` says so. Each provider is asked once, for `funds_s` of its own at most.
    """
    accounts: dict[str, list[LeaseRecord]] = {}
    for record in records:
        if record.is_open and record.lease.token and not record.lease.is_free:
            accounts.setdefault(f"{record.lease.provider} {record.lease.site}", []).append(record)
    return tuple(one for some in accounts.values() if (one := _of_account(ctx, some, rows)) is not None)


def _of_account(ctx: Context, records: list[LeaseRecord], rows: Mapping[str, LeaseRow]) -> Mapping[str, Any] | None:
    first = records[0].lease
    found: dict[str, Any] = {"provider": first.provider, "leases": [one.name for one in records]}
    found.update(balance=None, lasts_s=None, why=None)
    try:
        provider: Any = provider_of(ctx.site(first.site))
        if not provider.rents:
            return None
        if not hasattr(provider, "funds"):
            return {**found, "why": UNTOLD}
        told = provider.funds()
    except SojournError as error:
        return {**found, "why": error.message}
    if isinstance(told, NoAnswer):
        return {**found, "why": told.detail or told.kind}
    micro, currency = told
    rates = [rows[one.name].rate_micro_per_h for one in records]
    beside = [rows[one.name].disk_rate_micro_per_h or 0 for one in records]
    if None in rates or any(one.lease.currency != currency for one in records):
        return {**found, "balance": money(micro, currency), "why": "not all of their rates are known in its currency"}
    rate = sum(rate or 0 for rate in rates) + sum(beside)
    lasts_s = round(max(0, micro) * 3600 / rate, 1) if rate else None
    return {**found, "balance": money(micro, currency), "lasts_s": lasts_s}
