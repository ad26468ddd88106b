"""What a run would cost on an offer: the meter, the disk, traffic out, the least that is billed, and work done twice.

All of it is an estimate: how long a run takes, and how often its machine is lost, nobody knows beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sojourn.core import money
from sojourn.core.ports import Offer
from sojourn.wire import cadence

MONTH_S = 730 * 3600  # the month by which providers price a disk: 8,760 hours / 12
AGAIN_S = 900.0  # to be running again after an interruption: another machine, the code, `setup`


@dataclass(frozen=True)
class Errand:
    """What a run is expected to take. `out_gib`: what comes home of it. `mtbf_s`: how long a spot machine lasts, on
    average, until it is taken back; `write_s`: how long a checkpoint takes to write.
    """

    run_s: float = 3600.0
    out_gib: float = 0.0
    mtbf_s: float = 8 * 3600.0
    write_s: float = 60.0


@dataclass(frozen=True)
class RunCost:
    """Parts of what a run costs on an offer, in millionths of the offer's currency, each rounded up."""

    compute_micro: int = 0
    disk_micro: int = 0
    traffic_micro: int = 0
    loss_micro: int = 0  # expected: hours paid for work that is done twice

    @property
    def total_micro(self) -> int:
        """All parts."""
        return self.compute_micro + self.disk_micro + self.traffic_micro + self.loss_micro


def run_cost(offer: Offer, errand: Errand) -> RunCost | None:
    """What the run would cost there; None where the rate is not known.

    The disk is counted where the rate does not hold it, for as long as the machine is billed. Of a spot machine a share
    of the time is lost: what `cadence.waste` says at the best interval, and AGAIN_S for each interruption. Of another
    one, the share of work that its provider's measure of reliability leaves open: an outage undoes work, even where it
    is not billed.
    """
    if not offer.is_rate_known:
        return None
    facts, rate = offer.facts, offer.rate_micro_per_h
    billed_s = max(errand.run_s, float(facts.get("minimum_s") or 0))
    monthly = int(facts.get("disk_micro_per_gib_month") or 0) * float(facts.get("disk_gib") or 0)
    return RunCost(
        compute_micro=money.spent_micro(rate, 0.0, billed_s),
        disk_micro=math.ceil(monthly * billed_s / MONTH_S),
        traffic_micro=math.ceil(int(facts.get("egress_micro_per_gib") or 0) * errand.out_gib),
        loss_micro=math.ceil(rate * errand.run_s / 3600 * _lost(offer, errand)),
    )


def ranked(offers: Iterable[Offer], errand: Errand, currency: str = "") -> list[Offer]:
    """The cheapest run first; offers in `currency` (else in that of most offers) before others, which no rate of
    exchange makes comparable; those of unknown price last.
    """
    found = list(offers)
    counts = {one.currency: sum(other.currency == one.currency for other in found) for one in found}
    first = currency or max(counts, key=lambda one: (counts[one], one), default="")

    def place(offer: Offer) -> tuple[bool, bool, str, int, float, str]:
        cost = run_cost(offer, errand)
        total = 0 if cost is None else cost.total_micro
        reliability = float(offer.facts.get("reliability") or 0.0)
        return cost is None, offer.currency != first, offer.currency, total, -reliability, offer.native

    return sorted(found, key=place)


def _lost(offer: Offer, errand: Errand) -> float:
    """The share of the run's time that is paid for and lost."""
    if offer.facts.get("is_spot"):
        interval_s = cadence.interval_s(errand.mtbf_s, errand.write_s)
        return min(1.0, cadence.waste(errand.mtbf_s, errand.write_s, interval_s) + AGAIN_S / errand.mtbf_s)
    reliability = min(1.0, max(0.5, float(offer.facts.get("reliability") or 1.0)))
    return 1.0 / reliability - 1.0
