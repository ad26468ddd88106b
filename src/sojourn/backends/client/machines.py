"""What providers make of a machine: which offers a job's GPUs fit, the lease on one, and the names that it bears."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sojourn.backends.client import keys
from sojourn.core import money
from sojourn.core.need import Need, fits
from sojourn.core.values import Lease, Site
from sojourn.store.catalog import platform
from sojourn.wire.errors import Misuse


def counts(need: Need, *names: str) -> Iterator[int]:
    """How many GPUs of one kind, called `names`, would do for `need`; 1 where any GPU would."""
    if not need.accelerators:
        yield 1
        return
    wanted = {count for name, count in need.accelerators if any(fits(name, one) for one in names)}
    yield from sorted(wanted)


def has_gpus(need: Need, gpus: int, *names: str) -> bool:
    """Whether a machine of a fixed size has what `need` wants: so many GPUs of one kind, or more."""
    return not need.accelerators or any(
        gpus >= count and any(fits(name, one) for one in names) for name, count in need.accelerators
    )


def has_cpus(need: Need, cpus: float, memory_gib: float) -> bool:
    """Whether a machine has the processors and the memory that `need` wants."""
    return cpus >= need.cpus and memory_gib >= need.memory_gib


def told_rate(site: Site, currency: str = "USD") -> tuple[int, str]:
    """(micro-units an hour, currency) of `rate` in the provider's settings, for one whose API has no prices; where
    it is not set (0, `currency`), and the price is not known.   Raises: Misuse.
    """
    told = keys.text(site, "rate")
    if not told:
        return 0, currency
    try:
        return money.read_rate(told)
    except ValueError as error:
        raise Misuse(detail=f"[sites.{site.name}.{site.provider}] rate: {error}") from error


def lease(
    site: Site,
    native: str,
    token: str,
    rate: tuple[int | None, str],
    began_s: float,
    stop: tuple[str, str],
    facts: Mapping[str, Any],
) -> Lease:
    """The lease on machine `native`. `rate`: micro-units an hour, None where it is not known, and the currency. `stop`:
    how it is released, and how stopped so that its disk stays ("" for not at all).
    """
    amount, currency = rate
    return Lease(
        name=site.name,
        site=site.name,
        provider=site.provider,
        native=native,
        rate_micro_per_h=amount or 0,
        currency=currency,
        began_s=began_s,
        stop_verb=stop[0],
        is_final=True,
        clocks=platform(site.platform).clocks,
        is_rate_known=amount is not None,
        keep_verb=stop[1],
        token=token,
        facts={key: value for key, value in facts.items() if value not in (None, "")},
    )
