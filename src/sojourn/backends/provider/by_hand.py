"""Provider `by_hand`: the user rents the box and stops it; we count its meter and say what to do.

Rate, stop words and danger clocks come from [sites.NAME] of the settings, and from the platform where those are silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sojourn.core import law
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.plain import revive
from sojourn.core.ports import Offer
from sojourn.core.values import Clock, Lease, Pulse, Site
from sojourn.wire import units
from sojourn.wire.errors import Misuse


class NoRate(Misuse):
    """Site {site} is stopped by hand, and the settings do not say what it costs."""

    code = "no-rate"
    next_step = 'write rate = "1.19 USD/h" into [sites.{site}] of your settings'


class Backend:
    """The user's own meter."""

    metered: ClassVar[bool] = True
    stops_itself: ClassVar[bool] = False
    stop_verb: ClassVar[str] = "you stop it"
    is_final: ClassVar[bool] = True

    def __init__(self, site: Site) -> None:
        self._site = site

    def offers(self, need: Need) -> Sequence[Offer]:
        """The box that the user has. Raises: NoRate."""
        site = self._site
        if site.rate_micro_per_h <= 0:
            raise NoRate(site=site.name)
        return (Offer(native=site.name, rate_micro_per_h=site.rate_micro_per_h, currency=site.currency),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        """A record of ours only: the same token names the same lease again.

        The meter began when the settings say so (`began`), otherwise now.
        """
        from sojourn.store.catalog import platform

        options, known = self._site.options, platform(self._site.platform)
        began_s = units.unstamp(options["began"]) if "began" in options else now_s
        has_own_words = "stop" in options
        return Lease(
            name=self._site.name,
            site=self._site.name,
            provider="by_hand",
            native=token,
            rate_micro_per_h=offer.rate_micro_per_h,
            currency=offer.currency,
            began_s=min(began_s, now_s),
            stop_verb=options.get("stop", known.stop_verb),
            is_final=options.get("stop_is_final", known.stop_is_final),
            clocks=(*(revive(Clock, clock) for clock in options.get("clocks", ())), *known.clocks),
            facts_verified="" if has_own_words else known.facts_verified,
        )

    def look(self, lease: Lease) -> Pulse:
        """Only the user can look."""
        return Pulse.UNKNOWN

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Stops nothing: says what the user must do now. Raises: Defect for a clearance that is not for this lease."""
        law.check(clearance, lease)
        undo = "it deletes the box's disk, with no undo; what you owe is home" if lease.is_final else "the disk stays"
        rate = units.say_money(lease.rate_micro_per_h, lease.currency)
        return f"the meter runs at {rate}/h until you do this now: {lease.stop_verb} ({undo})"
