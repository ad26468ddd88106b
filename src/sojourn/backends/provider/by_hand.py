"""Provider `by_hand`: the user rents the box and stops it; we count its meter and say what to do.

Rate, stop words and danger clocks come from [sites.NAME] of the settings, and from the platform where those are silent.
Without a rate there its meter is unknown, never free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from sojourn.core import law
from sojourn.core.inventory import Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.plain import revive
from sojourn.core.ports import Offer
from sojourn.core.values import Clock, Lease, NoAnswer, Pulse, Site
from sojourn.wire import units


class Backend:
    """The user's own meter."""

    metered: ClassVar[bool] = True
    rents: ClassVar[bool] = False
    stops_itself: ClassVar[bool] = False
    stop_verb: ClassVar[str] = "you stop it"
    is_final: ClassVar[bool] = True

    def __init__(self, site: Site) -> None:
        self._site = site

    def offers(self, need: Need) -> Sequence[Offer]:
        """The box that the user has, at the rate that its settings say, if any."""
        site, rate = self._site, self._site.rate_micro_per_h
        return (Offer(site.name, rate, site.currency, is_rate_known=site.is_free or rate > 0),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        """A record of ours only: the same token names the same lease again.

        The meter began when the settings say so (`began`), otherwise now.
        """
        from sojourn.store.catalog import platform

        options, known = self._site.options, platform(self._site.platform)
        began_s = units.unstamp(options["began"]) if "began" in options else now_s
        has_own_words = "stop" in options
        stop, is_final = options.get("stop", known.stop_verb), options.get("stop_is_final", known.stop_is_final)
        keeping = (stop if not is_final else "") if has_own_words else known.keep_verb
        return Lease(
            name=self._site.name,
            site=self._site.name,
            provider="by_hand",
            native=token,
            token=token,
            rate_micro_per_h=offer.rate_micro_per_h,
            currency=offer.currency,
            began_s=min(began_s, now_s),
            stop_verb=stop,
            is_final=is_final,
            clocks=(*(revive(Clock, clock) for clock in options.get("clocks", ())), *known.clocks),
            facts_verified="" if has_own_words else known.facts_verified,
            is_rate_known=offer.is_rate_known,
            keep_verb=options.get("keep_disk", keeping),
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
        """Only the user can look."""
        return Pulse.UNKNOWN

    def check(self) -> Mapping[str, Any]:
        """There is no account."""
        return {}

    def wake(self, lease: Lease) -> str:
        """Only its user can start it."""
        return f"start {lease.name} yourself"

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Stops nothing: says what the user must do now. Raises: Defect for a clearance that is not for this lease."""
        law.check(clearance, lease)
        undo = (
            " (this deletes the box's disk and cannot be undone; everything owed is home)"
            if lease.is_final
            else " (the disk stays)"
        )
        if lease.facts_verified and lease.stop_verb == lease.keep_verb:
            undo = ""  # the platform's own words say what stays
        rate = f" at {units.say_money(lease.rate_micro_per_h, lease.currency)}/h" if lease.rate_micro_per_h else ""
        meter = "the meter runs" if lease.is_rate_known else "the meter may be running (its rate is not known)"
        return f"{meter}{rate} until you do this: {lease.stop_verb}{undo}"
