"""A provider's lists of what an account has, compared with our journal. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

HOURS_PER_MONTH = 730  # as providers count
_MARK = re.compile(r"sojourn-(?:([0-9a-f]{8})-)?[0-9a-zA-Z]{8,64}")  # without a client in older versions


def client_of(user: str, host: str) -> str:
    """The digest of who rents, in the mark of each machine."""
    return hashlib.sha256(f"{user}@{host}".encode()).hexdigest()[:8]


def token_of(client: str, word: str) -> str:
    """What a machine is called: our mark, with its client and a word that was drawn for it."""
    return f"sojourn-{client}-{word}"


def marked_by(name: str) -> str | None:
    """The client in the mark that `name` is, "" where it is one of an older version; None: it is none of ours."""
    mark = _MARK.fullmatch(name)
    return None if mark is None else mark[1] or ""


@dataclass(frozen=True)
class Asset:
    """One billable thing in an account, as its provider lists it.

    `kind`: machine, volume, file system, snapshot, address. `state`: in the provider's word. Its cost: per hour or
    month, None if unknown. `of`: native ids of the machines it is attached to or was made from. `command`: a shell line
    that deletes it, "" for a machine, which `down` releases.
    """

    kind: str
    native: str
    name: str = ""
    state: str = ""
    rate_micro_per_h: int | None = None
    micro_per_month: int | None = None
    currency: str = "USD"
    of: tuple[str, ...] = ()
    command: str = ""

    @property
    def month_micro(self) -> int | None:
        """Its cost per month; None if unknown."""
        if self.micro_per_month is None and self.rate_micro_per_h is not None:
            return self.rate_micro_per_h * HOURS_PER_MONTH
        return self.micro_per_month


@dataclass(frozen=True)
class Inventory:
    """Everything that could be listed. `unknown`: (kind, why) of what could not be read this time; `unlisted`: kinds
    that may bill but that the API does not list.
    """

    assets: tuple[Asset, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    unlisted: tuple[str, ...] = ()


class Standing(StrEnum):
    """The state of a lease in the journal."""

    ASKED = "asked"  # it may or may not have been rented
    OPEN = "open"
    KEPT = "kept"  # released, with its disk kept
    CLOSED = "closed"


class Verdict(StrEnum):
    """The verdict from list and journal together."""

    OURS = "ours"  # it bills, for an open lease
    KEPT = "kept"  # it bills, left on purpose by a released lease
    NOT_OURS = "not-ours"  # it bills, and no lease of this journal has it
    NOT_GONE = "not-gone"  # it bills, although the journal says it was released
    GONE = "gone"  # it bills by the journal, but is no longer listed
    UNRECORDED = "unrecorded"  # it bears the mark of this client, and no lease of this journal has it


@dataclass(frozen=True)
class Claim:
    """A lease of the journal, as far as a list can show it."""

    lease: str
    token: str
    native: str
    standing: Standing

    def is_about(self, asset: Asset) -> bool:
        """By its id; by its name as long as no id is known. Another machine of its name was rented beside it."""
        if asset.kind != "machine":
            return False
        return asset.native == self.native if self.native else self.bears(asset)

    def bears(self, asset: Asset) -> bool:
        """Whether the machine bears its token."""
        return asset.name == self.token != ""


@dataclass(frozen=True)
class Match:
    """One line of a comparison; `asset` None: not listed. `lease`: of the journal, "" for none."""

    verdict: Verdict
    lease: str
    asset: Asset | None = None


_MACHINE = {
    Standing.ASKED: Verdict.OURS,
    Standing.OPEN: Verdict.OURS,
    Standing.KEPT: Verdict.KEPT,
    Standing.CLOSED: Verdict.NOT_GONE,
}


def compare(claims: Sequence[Claim], assets: Iterable[Asset], client: str = "") -> tuple[Match, ...]:
    """Things that bill, ours or not, and things released that still exist; in list order. `client`: who asks.

    Parts of a machine follow it: they are ours while it is, and `kept` if it was released.
    """
    return tuple(_match(claims, asset, client) for asset in assets)


def absent(claims: Iterable[Claim], assets: Sequence[Asset]) -> list[Claim]:
    """Leases that bill by the journal but match no listed machine."""
    held = (Standing.ASKED, Standing.OPEN)
    return [one for one in claims if one.standing in held and not any(one.is_about(asset) for asset in assets)]


def left_of(native: str, before: Iterable[Asset], now: Iterable[Asset]) -> tuple[Asset, ...]:
    """What belonged to a machine `before` its release and still exists `now`: in its current state, the machine too."""
    had = {(one.kind, one.native) for one in before if native in (*one.of, one.native)}
    return tuple(one for one in now if (one.kind, one.native) in had or native in (*one.of, one.native))


def _match(claims: Sequence[Claim], asset: Asset, client: str) -> Match:
    about = [one for one in claims if one.is_about(asset) and not _was_nothing(one)]
    if not about and asset.kind == "machine":
        named = next((one.lease for one in claims if one.bears(asset)), "")
        if named or (client and marked_by(asset.name) == client):
            return Match(Verdict.UNRECORDED, named, asset)
    if about:
        order = list(_MACHINE)
        best = min(about, key=lambda one: order.index(one.standing))
        return Match(_MACHINE[best.standing], best.lease, asset)
    owners = [one for one in claims if one.native and one.native in asset.of]
    held = next((one for one in owners if one.standing in (Standing.OPEN, Standing.ASKED)), None)
    if held:
        return Match(Verdict.OURS, held.lease, asset)
    if owners:
        return Match(Verdict.KEPT, owners[0].lease, asset)
    return Match(Verdict.NOT_OURS, "", asset)


def _was_nothing(claim: Claim) -> bool:
    """It was asked for, and then believed not to have been rented."""
    return claim.standing is Standing.CLOSED and not claim.native
