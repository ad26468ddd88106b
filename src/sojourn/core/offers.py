"""What is known about an offer, under the same keys for every provider: the basis for choosing between providers."""

from __future__ import annotations

from typing import TypedDict


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
