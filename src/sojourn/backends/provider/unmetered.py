"""Provider `unmetered`: a box that nobody told us to stop. Nothing is rented; letting go only closes our own record.

It is free where the user or the platform says so. Of any other (a plain `ssh:ALIAS`) nobody knows what it costs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from sojourn.core import law
from sojourn.core.inventory import Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Lease, NoAnswer, Pulse, Site


class Backend:
    """A lease on what is there anyway."""

    metered: ClassVar[bool] = False
    rents: ClassVar[bool] = False
    stops_itself: ClassVar[bool] = True
    stop_verb: ClassVar[str] = "nothing to stop"
    is_final: ClassVar[bool] = False

    def __init__(self, site: Site) -> None:
        self._site = site

    def offers(self, need: Need) -> Sequence[Offer]:
        """The box itself; whether it fits is preflight's to say."""
        from sojourn.store.catalog import platform

        site = self._site
        is_free = site.is_free or (not site.rate_micro_per_h and platform(site.platform).bills is False)
        return (Offer(site.name, 0, site.currency, is_rate_known=is_free),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        """A record of ours only: the same token names the same lease again."""
        return Lease(
            name=self._site.name,
            site=self._site.name,
            provider="unmetered",
            native=token,
            token=token,
            rate_micro_per_h=0,
            currency=offer.currency,
            began_s=now_s,
            stop_verb=self.stop_verb,
            is_final=self.is_final,
            is_rate_known=offer.is_rate_known,
        )

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """Nobody keeps a list: what was taken is in our own journal alone."""
        return ()

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Nothing here is known to an account."""
        return Inventory()

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """It was there before."""
        return lease

    def look(self, lease: Lease) -> Pulse:
        """Nobody is known to rent it out, so nobody can say that it is gone."""
        return Pulse.UNKNOWN

    def check(self) -> Mapping[str, Any]:
        """There is no account."""
        return {}

    def wake(self, lease: Lease) -> str:
        """Only its user can start it."""
        return f"start {lease.name} yourself"

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Nothing is stopped and nothing deleted. Raises: Defect for a clearance that is not for this lease."""
        law.check(clearance, lease)
        if not lease.is_rate_known:
            return "nothing was stopped; whether this box costs money is not known: if you rent it, stop it yourself"
        return "nothing to stop: this box has no meter, and the run's folder stays on it"
