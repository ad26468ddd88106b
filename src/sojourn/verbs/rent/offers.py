"""`offers`: what could be rented now, at all providers with a key, ranked by what the run would cost. Rents nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.ranking import Errand, RunCost, ranked, run_cost
from sojourn.core.values import Site
from sojourn.store import platforms
from sojourn.store.catalog import platform
from sojourn.store.job.read import find_job, read_job
from sojourn.store.job.values import JobFile
from sojourn.verbs.answers import money
from sojourn.verbs.context import Context
from sojourn.verbs.rent.market import ASK_S, NoProviderKey, Quote, ask_all, market, with_spot
from sojourn.verbs.rent.nothing import why_nothing
from sojourn.verbs.rent.price import within

_SHOWN_FACTS = ("cpus", "memory_gib", "disk_gib", "gpu_memory_gib", "region", "reliability", "stock", "duration_s")


@dataclass(frozen=True)
class OfferRow:
    """One offer. `cost`: of the whole run, None where its rate is not known."""

    site: Site
    offer: Offer
    cost: RunCost | None

    def as_json(self) -> dict[str, Any]:
        """One element of `offers.offers`."""
        offer, cost = self.offer, self.cost
        parts = ("compute", "disk", "traffic", "loss")
        facts = offer.facts
        return {
            "provider": self.site.provider,
            "site": self.site.name,
            "offer": offer.native,
            "gpu": facts.get("gpu"),
            "gpus": facts.get("gpus"),
            **{key: facts.get(key) for key in _SHOWN_FACTS},
            "is_spot": bool(facts.get("is_spot")),
            "interruption": facts.get("interruption"),
            "rate": money(offer.rate_micro_per_h if offer.is_rate_known else None, offer.currency),
            "run": None
            if cost is None
            else {
                "total": money(cost.total_micro, offer.currency),
                **{part: money(getattr(cost, f"{part}_micro"), offer.currency) for part in parts},
                "is_estimate": True,
            },
        }


@dataclass(frozen=True)
class Offers:
    """What can be had, the cheapest run first. `failed`: who was asked and did not say. `without_key`: provider -> its
    variable. `platforms`: provider -> what survives its verbs, its danger clocks, and whether it was ever tried live.
    """

    need: Need
    errand: Errand
    is_assumed: bool  # nobody said how long the run takes
    rows: tuple[OfferRow, ...]
    failed: tuple[Quote, ...]
    without_key: Mapping[str, str]
    platforms: Mapping[str, Mapping[str, Any]]
    remarks: tuple[str, ...]
    next: str
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `offers` document."""
        return {
            "schema": "sojourn/offers/v1",
            "need": self.need.as_plain(),
            "run": {"seconds": self.errand.run_s, "is_assumed": self.is_assumed, "out_gib": self.errand.out_gib},
            "offers": [row.as_json() for row in self.rows],
            "failed": [
                {"site": one.site.name, "provider": one.site.provider, "code": error.code, "message": error.message}
                for one in self.failed
                if (error := one.error)
            ],
            "without_key": dict(self.without_key),
            "platforms": {name: dict(told) for name, told in self.platforms.items()},
            "remarks": list(self.remarks),
            "next": self.next,
        }


def offers(
    ctx: Context,
    file: str = "",
    *,
    need: Need | None = None,
    provider: str = "",
    is_spot: bool = False,
    run_s: float | None = None,
    out_gib: float = 0.0,
    mtbf_s: float | None = None,
    max_price: tuple[int, str] | None = None,
    deadline_s: float = ASK_S,
) -> Offers:
    """Ask every provider that a key is there for; each has `deadline_s`.

    What is not given is the job file's (`file`: "" = ./sojourn.yaml, where there is one): its `resources`,
    `max_duration`, `max_price`. `run_s`: how long the run takes; an hour where nobody says.
    Raises: NoProviderKey, NoSuchProvider, UnknownGpu, NothingOffered, OverMaxPrice, the error of the only provider
    that was asked, Misuse (bad-job-file, ...).
    """
    job = _job(file)
    need = _joined(need, job)
    told_s = run_s if run_s is not None else job.max_duration_s if job else None
    errand = Errand(run_s=told_s or 3600.0, out_gib=out_gib)
    errand = replace(errand, mtbf_s=mtbf_s) if mtbf_s else errand
    most = max_price or (job.max_price if job else None)
    sites, without = market(provider)
    if not sites:
        raise NoProviderKey(looked=", ".join(f"{env} ({name})" for name, env in sorted(without.items())))
    quotes = ask_all(ctx, [with_spot(one) for one in sites] if is_spot else sites, need, deadline_s)
    rows, dear = _rows(quotes, errand, most, is_spot, job)
    failed = tuple(one for one in quotes if one.error)
    if not rows and not 1 < len(failed) == len(quotes):
        raise why_nothing(quotes, need, dear, most, is_spot=is_spot)
    return Offers(
        need=need,
        errand=errand,
        is_assumed=told_s is None,
        rows=rows,
        failed=failed,
        without_key=without,
        platforms={name: survival(name) for name in dict.fromkeys(row.site.platform for row in rows)},
        remarks=tuple(_remarks(rows, len(dear), told_s is None, errand)),
        next=f"sojourn run --site {rows[0].site.name}" if rows else "sojourn offers",
        exit_status=0 if rows else max(one.error.exit_status for one in failed if one.error),
    )


def survival(name: str) -> dict[str, Any]:
    """What of a platform's storage survives a stop and the end of the machine, its danger clocks, and whether its API
    was ever used for real by us. From data/platforms.
    """
    told = platform(name)
    tiers = platforms.document(name).get("tier", ())
    return {
        "title": told.title,
        "stop": told.keep_verb or None,
        "survives_stop": [row["name"] for row in tiers if row["stop"] == "yes"],
        "destroy": told.stop_verb,
        "survives_destroy": [row["name"] for row in tiers if row["destroy"] == "yes"],
        "clocks": [asdict(clock) for clock in told.clocks],
        "untried": platforms.document(name).get("api", {}).get("untried") in (True, "yes"),
    }


def _job(file: str) -> JobFile | None:
    if not file and not any(os.path.lexists(name) for name in ("sojourn.yaml", "sojourn.yml")):
        return None
    return read_job(file or find_job())


def _joined(given: Need | None, job: JobFile | None) -> Need:
    """What was given, and of the job's what was not."""
    own = job.need if job else Need()
    if given is None:
        return own
    cpus = given if given.cpus else own
    memory = given if given.memory_gib else own
    return Need(
        given.accelerators or own.accelerators,
        cpus.cpus,
        cpus.cpus_or_more,
        memory.memory_gib,
        memory.memory_or_more,
        given.disk_gib or own.disk_gib,
    )


def _rows(
    quotes: Sequence[Quote], errand: Errand, most: tuple[int, str] | None, is_spot: bool, job: JobFile | None
) -> tuple[tuple[OfferRow, ...], list[tuple[Site, Offer]]]:
    """(the offers within every limit, ranked; those that cost too much)."""
    found: dict[int, Site] = {}
    dear: list[tuple[Site, Offer]] = []
    mine: list[Offer] = []
    for one in quotes:
        wanted = [offer for offer in one.offers if not is_spot or offer.facts.get("is_spot")]
        kept = within(one.site, wanted, most)
        dear += [(one.site, offer) for offer in wanted if offer not in kept]
        mine += kept
        found.update((id(offer), one.site) for offer in kept)
    currency = (most or (job.budget if job and job.budget else None) or (0, ""))[1]
    rows = (OfferRow(found[id(one)], one, run_cost(one, errand)) for one in ranked(mine, errand, currency))
    return tuple(rows), dear


def _remarks(rows: Sequence[OfferRow], dear: int, is_assumed: bool, errand: Errand) -> list[str]:
    out = ["the cost of a run is an estimate: how long it takes and what is interrupted is not known beforehand"]
    if is_assumed:
        out.append("for a run of 1 h, because nothing says how long it takes (--hours, or `max_duration` of the job)")
    if any(row.offer.facts.get("is_spot") for row in rows):
        hours = f"{errand.mtbf_s / 3600:g} h"
        out.append(f"spot machines are assumed to be taken back every {hours} on average (--mtbf); nobody publishes it")
    if not errand.out_gib and any(row.offer.facts.get("egress_micro_per_gib") for row in rows):
        out.append("traffic out is not counted (--out GIB): some of these charge for it")
    if len({row.offer.currency for row in rows}) > 1:
        out.append("prices in different currencies are not compared")
    if dear:
        out.append(f"{dear} that cost more than `max_price`, or do not say what they cost, are left out")
    return out
