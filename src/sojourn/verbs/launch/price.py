"""What may be rented for a job: within the site's `max_price`, and agreed to by who pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sojourn.core import money
from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Site
from sojourn.verbs.confirm import Ask, confirmed
from sojourn.verbs.context import Context
from sojourn.wire import units
from sojourn.wire.errors import Misuse, Refusal, WorldError


class OverMaxPrice(WorldError):
    """Nothing that fits is within {cap} an hour, the `max_price` of {site}: {offer} is {price}. Nothing was rented."""

    code = "over-max-price"
    retry = True
    next_step = "sojourn plan"


class NotWithinLimits(Refusal):
    """`-y` rents only within `max_price` and `budget`, and {why}. Nothing was rented."""

    code = "not-within-limits"
    next_step = "sojourn run --confirm {lease}"


@dataclass(frozen=True)
class Wish:
    """What a job would rent. `yes`: its user wants no question (`-y`). `budget`: (micro-units, currency) of the job.

    `another`: a machine that no run was ever on, though the site may have others.
    """

    need: Need = field(default_factory=Need)
    budget: tuple[int, str] | None = None
    yes: bool = False
    another: bool = False


def cheapest(site: Site, offers: Sequence[Offer]) -> Offer | None:
    """The first offer within the site's `max_price`; None where nothing is offered.

    Raises: OverMaxPrice, Misuse (a `max_price` that is no price, or in another currency).
    """
    cap = max_price(site)
    for offer in offers:
        if cap is None or (offer.is_rate_known and offer.rate_micro_per_h <= _in(site, cap, offer.currency)):
            return offer
    if not offers:
        return None
    assert cap is not None
    raise OverMaxPrice(site=site.name, cap=units.say_money(*cap), offer=offers[0].native, price=in_words(offers[0]))


def max_price(site: Site) -> tuple[int, str] | None:
    """(micro-units an hour, currency) of `max_price` in `[sites.NAME.PROVIDER]`; None without one. Raises: Misuse."""
    told = (site.options.get(site.provider) or {}).get("max_price")
    if told is None:
        return None
    try:
        return money.read_rate(str(told))
    except ValueError as error:
        raise Misuse(detail=f"[sites.{site.name}.{site.provider}] max_price = {told!r}: {error}") from error


def in_words(offer: Offer) -> str:
    """Its price, for people."""
    return (
        f"{units.say_money(offer.rate_micro_per_h, offer.currency)} an hour"
        if offer.is_rate_known
        else "an unknown price"
    )


def agree(ctx: Context, site: Site, lease: str, offer: Offer, wish: Wish) -> None:
    """Return where this may be rented now; `lease` is its name then. Raises: NotConfirmed, NotWithinLimits."""
    question = _ask(site, lease, offer, wish)
    if wish.yes:
        why = beyond(site, offer, wish)
        if not why:
            return
        if ctx.confirm(question) != lease:
            raise NotWithinLimits(lease=lease, why=why, lines=list(question.lines))
        return
    confirmed(ctx.confirm, question)


def beyond(site: Site, offer: Offer, wish: Wish) -> str:
    """Why `-y` does not rent it; "" where it does."""
    if not offer.is_rate_known:
        return f"{site.provider} does not say what {offer.native} costs"
    if max_price(site) is None:
        return f"[sites.{site.name}.{site.provider}] has no `max_price`"
    if wish.budget is None:
        return "the job has no `budget`"
    if wish.budget[1] != offer.currency:
        return f"the job's `budget` is in {wish.budget[1]}, and {offer.native} costs {offer.currency}"
    return ""


def _ask(site: Site, lease: str, offer: Offer, wish: Wish) -> Ask:
    lines = [
        f"rent {offer.native} from {site.provider} as {lease}, at {in_words(offer)}",
        f"its meter runs from now until `sojourn down {lease}`, even while nothing trains on it",
    ]
    if wish.budget is None:
        lines.append("the job has no `budget`: nothing stops its process when it gets expensive")
    elif offer.is_rate_known and wish.budget[1] == offer.currency:
        paid_s = money.affords_s(wish.budget[0], offer.rate_micro_per_h)
        lines.append(
            f"the job's budget, {units.say_money(*wish.budget)}, pays for {units.say_seconds(paid_s or 0.0)} of it"
        )
    return Ask("run", lease, tuple(lines), f"the same command with --confirm {lease}", doing="rent it")


def _in(site: Site, cap: tuple[int, str], currency: str) -> int:
    if cap[1] != currency:
        raise Misuse(
            detail=f"[sites.{site.name}.{site.provider}] max_price is in {cap[1]}, and its machines cost {currency}"
        )
    return cap[0]
