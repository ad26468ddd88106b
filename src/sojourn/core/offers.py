"""The port of providers: offers, what a request came to, and who starts and stops the meter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypedDict

from sojourn.core.inventory import Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.values import Lease, NoAnswer, Pulse


class OfferFacts(TypedDict, total=False):
    """What a provider says about an offer, without what it does not say. Money in millionths of the offer's currency.

    `reliability`: 0 to 1, as the provider measures it. `survives_stop`, `interruption`, `stock`: in words. An offer's
    other facts are the provider's own, for its `take`.
    """

    gpu: str
    gpus: int
    gpu_memory_gib: float
    cpus: float
    memory_gib: float
    disk_gib: float
    region: str
    stock: str
    is_spot: bool
    interruption: str
    reliability: float
    minimum_s: int  # this many seconds are billed at least
    duration_s: int  # the rental ends by itself after this
    disk_micro_per_gib_month: int  # beside the rate; left out if the rate includes it
    egress_micro_per_gib: int
    survives_stop: str


@dataclass(frozen=True)
class Offer:
    """What a provider would rent, and the rate. `is_rate_known`: False if it is unknown and given as 0.

    `facts`: the known ones of `OfferFacts`, and the provider's own.
    """

    native: str
    rate_micro_per_h: int
    currency: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_rate_known: bool = True


KINDS = ("capacity", "balance", "quota", "key", "request", "rate")


@dataclass(frozen=True)
class Rejected:
    """The provider took nothing, by its own word. `why`: its words, for people.

    `kind`: capacity (another offer may do), balance and key (nothing of this account will), quota, request (this offer
    will not), rate (later, after `retry_after_s` where it says so).
    """

    why: str
    kind: str = "capacity"
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Unknown:
    """Whether the provider took anything is unknown: its answer was lost, or says neither. Only `find` can tell."""

    detail: str = ""


class Provider(Protocol):
    """Starts and stops the meter. Made with `Backend(site)`; its settings are `site.options`.

    A token is drawn at random for each `take` and never reused. If the provider `rents`, its machine bears the token as
    name or tag for ever: the token is the mark by which `find` and `list` know it, and begins as `core.inventory.mark`.
    Whatever asks may raise WorldError or Unreachable; no message holds a key.
    """

    metered: ClassVar[bool]
    rents: ClassVar[bool]  # `take` orders a machine that did not exist before
    stops_itself: ClassVar[bool]  # False: `release` stops nothing, and its line tells a person what to do
    stop_verb: ClassVar[str]
    is_final: ClassVar[bool]

    def offers(self, need: Need) -> Sequence[Offer]:
        """What could be rented for `need` now, cheapest first. Raises: WorldError, Unreachable."""
        ...

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """Rent it: asked once, never retried by itself. The lease may not have an address yet: see `ready`.

        A time-out, HTTP 408, 409 and 5xx, and what cannot be read are Unknown.
        """
        ...

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The leases on all machines with this token, from the provider's own list; () if none is listed (any more).

        There are two where something on the way repeated the request.
        """
        ...

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """All that the account has and that may bill, whoever rented it; of `kinds` alone where given. A machine's
        `name` is its token; a list that cannot be read whole is `unknown`, never empty.
        """
        ...

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """The lease with the address that its machine has now, once that can be reached: asked once, for at most
        `deadline_s`. NoAnswer (`kind` "not-ready") while it is being made. Raises: WorldError if it never will be.
        """
        ...

    def look(self, lease: Lease) -> Pulse:
        """How the provider says that the machine stands: STOPPED where it exists, computes nothing, and may bill. GONE
        takes two signals; whoever cannot be asked, or knows no such key, says UNKNOWN.
        """
        ...

    def check(self) -> Mapping[str, Any]:
        """The account, by reading calls: `key` (where it is from), `machines` (how many), `balance` (in words), and
        `balance_micro` where nothing can be rented once that is used up. Raises: what the key was refused with, ...
        """
        ...

    def wake(self, lease: Lease) -> str:
        """Have a machine that is STOPPED run again, at its own rate; returns one line on what was asked for. Its
        address may be another one then. Raises: WorldError where it cannot be woken.
        """
        ...

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Stop the meter; returns one line on what was done or, if only a person can do it, what to do now. Idempotent.

        Stops it as `lease.stop_verb` says. To keep its disk, pass the lease with its `keep_verb` there and `is_final`
        False: same name and native id, so the same clearance holds. An answer that was lost is said in that line; a
        plain no raises WorldError.
        """
        ...
