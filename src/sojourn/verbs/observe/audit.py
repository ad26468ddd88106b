"""`leases --audit`: what each provider's own lists say against our journal. A provider that cannot be asked is unknown.

Reads only. Accounts: of each site of the settings whose provider rents, of the sites of open leases, and of each
provider whose key is in the environment. Schedulers that keep things are asked as well (`audit_kept`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sojourn.core.inventory import Asset, Inventory, Verdict, absent, compare
from sojourn.core.values import Pulse, Site
from sojourn.store.records import LeaseRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.observe.audit_kept import kept
from sojourn.verbs.observe.audit_rows import AuditRow, Blank
from sojourn.verbs.rent.known import claims_on, this_client
from sojourn.wire import units
from sojourn.wire.errors import SojournError, Unreachable

UNASKED = "its provider has no list that could be asked"


@dataclass(frozen=True)
class Audit:
    """All accounts that were asked. `asked`: (provider, its sites). `unlisted`: (provider, kinds without a list)."""

    rows: tuple[AuditRow, ...]
    unknown: tuple[Blank, ...]
    asked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unlisted: tuple[tuple[str, tuple[str, ...]], ...] = ()
    at: str = ""
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `audit` document of docs/json.md."""
        return document(
            self,
            "audit",
            without=("rows", "exit_status"),
            assets=[row.as_json() for row in self.rows],
            unknown=[document(one) for one in self.unknown],
            asked=[{"provider": provider, "sites": list(sites)} for provider, sites in self.asked],
            unlisted=[{"provider": provider, "kinds": list(kinds)} for provider, kinds in self.unlisted],
            exit=self.exit_status,
        )


@dataclass
class Account:
    """Sites that share one account of a provider; the first one asks."""

    sites: list[Site] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(site.name for site in self.sites)


def audit(ctx: Context) -> Audit:
    """Ask each account for all that it has, and hold it against the journal. Changes nothing, here or there.

    Exit status: 1 where journal and list contradict each other, 3 where a list could not be read, 10 where something
    bills that no open lease has, else 0.   Raises: BadSettings.
    """
    rows: list[AuditRow] = []
    accounts, unknown = accounts_of(ctx)
    unlisted: list[tuple[str, tuple[str, ...]]] = []
    for account in accounts:
        first = account.sites[0]
        ctx.say(f"asking {first.provider} for all that its account has")
        listed = _listed(first)
        if isinstance(listed, Blank):
            unknown.append(listed)
            continue
        unknown += [Blank(first.provider, kind, why, "sojourn leases --audit") for kind, why in listed.unknown]
        unlisted += [(first.provider, listed.unlisted)] if listed.unlisted else []
        found, blanks = _compared(ctx, account, listed)
        rows += found
        unknown += blanks
    asked = [(account.sites[0].provider, account.names) for account in accounts]
    for kept_rows, kept_blanks, whom in kept(ctx):
        rows += kept_rows
        unknown += kept_blanks
        asked.append(whom)
    verdicts = {row.verdict for row in rows}
    status = 10 if verdicts & {Verdict.NOT_OURS, Verdict.KEPT} else 0
    status = 3 if unknown else status
    status = 1 if verdicts & {Verdict.NOT_GONE, Verdict.GONE, Verdict.UNRECORDED} else status
    return Audit(tuple(rows), tuple(unknown), tuple(asked), tuple(unlisted), units.stamp(ctx.now_s()), status)


def accounts_of(ctx: Context) -> tuple[list[Account], list[Blank]]:
    """Every account once, however many sites rent from it."""
    from sojourn import backends
    from sojourn.store.settings import read_settings

    sites, unknown = {}, []
    for site in read_settings().sites.values():
        if backends.has("provider", site.provider) and backends.get("provider", site.provider).rents:
            sites[site.name] = site
    for record in ctx.store.index.leases():
        name = record.lease.site
        if record.has_stop and record.lease.token and name not in sites:
            try:
                site = ctx.site(name)
            except SojournError as error:
                unknown.append(Blank(record.lease.provider, f"lease {record.name}", error.message, error.next))
                continue
            if provider_of(site).rents:
                sites[name] = site
    accounts: dict[str, Account] = {}
    for site in sites.values():
        own = site.options.get(site.provider) or {}
        which = f"{site.provider} {own.get('key', '')} {own.get('api', '')} {own.get('account', '')}"
        accounts.setdefault(which, Account()).sites.append(site)
    have = {site.provider for site in sites.values()}
    for provider in backends.names("provider"):
        env = getattr(backends.get("provider", provider), "key_env", "")
        if provider not in have and env and ctx.environ.get(env):
            accounts[provider] = Account([Site(provider, "ssh", provider=provider, platform=provider)])
    return list(accounts.values()), unknown


def _listed(site: Site) -> Inventory | Blank:
    try:
        provider: Any = provider_of(site)
        if not hasattr(provider, "list"):
            return Blank(site.provider, "everything", UNASKED, "look at its console")
        found: Inventory = provider.list()
    except SojournError as error:
        return Blank(site.provider, "everything", error.message, error.next)
    return found


def _compared(ctx: Context, account: Account, listed: Inventory) -> tuple[list[AuditRow], list[Blank]]:
    """An account's things against the leases of its provider."""
    provider = account.sites[0].provider
    claims, records = claims_on(ctx, provider)
    rows = []
    for match in compare(claims, listed.assets, this_client()):
        following = _next(match.verdict, provider, match.asset)
        if match.verdict is Verdict.UNRECORDED:
            following = f"sojourn recover {account.sites[0].name}"
        rows.append(AuditRow(match.verdict, provider, match.lease, match.asset, following))
    blanks: list[Blank] = []
    if any(kind == "machine" for kind, _ in listed.unknown):
        return rows, blanks
    mine = {id(claim): record for claim, record in zip(claims, records, strict=True)}
    for claim in absent(claims, listed.assets):
        record = mine[id(claim)]
        if record.lease.site not in account.names:
            continue
        pulse = _looked(ctx, account, record)
        if pulse is Pulse.UNKNOWN:
            why = "it is not in the list, and its provider does not say that it is gone"
            following = "sojourn leases --audit" if record.lease.native else f"sojourn down {claim.lease}"
            blanks.append(Blank(provider, f"lease {claim.lease}", why, following))
        elif pulse is Pulse.GONE:
            rows.append(AuditRow(Verdict.GONE, provider, claim.lease, None, f"sojourn down {claim.lease}"))
        else:  # its list lags, but its id answers
            here = Asset("machine", record.lease.native, record.lease.token, "not listed yet")
            rows.append(AuditRow(Verdict.OURS, provider, claim.lease, here))
    return rows, blanks


def _looked(ctx: Context, account: Account, record: LeaseRecord) -> Pulse:
    """Gone only by two signals, as for `down`; what was only asked for has no id, and one list is not enough."""
    if not record.lease.native:
        return Pulse.UNKNOWN
    site = next(site for site in account.sites if site.name == record.lease.site)
    try:
        return provider_of(site).look(record.lease)
    except Unreachable:
        return Pulse.UNKNOWN


def _next(verdict: Verdict, provider: str, asset: Asset | None) -> str:
    """What ends its cost: never a machine that may hold somebody's work."""
    if asset is None or verdict is Verdict.OURS:
        return ""
    if asset.kind == "machine" and verdict is not Verdict.NOT_OURS:  # its lease was cleared, so nothing on it is owed
        return f"end {asset.native} in the console of {provider}"
    return asset.command
