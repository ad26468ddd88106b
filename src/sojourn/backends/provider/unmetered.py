"""Provider `unmetered`: a box that costs nothing to hold. Nothing is rented; letting go only closes our own record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sojourn.core import law
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Lease, Pulse, Site


class Backend:
    """A lease of rate 0 on what is there anyway."""

    metered: ClassVar[bool] = False
    stops_itself: ClassVar[bool] = True
    stop_verb: ClassVar[str] = "nothing to stop"
    is_final: ClassVar[bool] = False

    def __init__(self, site: Site) -> None:
        self._site = site

    def offers(self, need: Need) -> Sequence[Offer]:
        """The box itself; whether it fits is preflight's to say."""
        return (Offer(native=self._site.name, rate_micro_per_h=0, currency=self._site.currency),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        """A record of ours only: the same token names the same lease again."""
        return Lease(
            name=self._site.name,
            site=self._site.name,
            provider="unmetered",
            native=token,
            rate_micro_per_h=0,
            currency=offer.currency,
            began_s=now_s,
            stop_verb=self.stop_verb,
            is_final=self.is_final,
        )

    def look(self, lease: Lease) -> Pulse:
        """Nobody rents it out, so nobody can say that it is gone."""
        return Pulse.UNKNOWN

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Nothing is stopped and nothing deleted. Raises: Defect for a clearance that is not for this lease."""
        law.check(clearance, lease)
        return "nothing to stop: this box has no meter, and the run's folder stays on it"
