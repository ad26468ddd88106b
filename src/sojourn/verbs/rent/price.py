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

READY_S = 900.0  # making a machine takes minutes; where images are large, ten


class OverMaxPrice(WorldError):
    """Nothing that fits is within {cap} an hour, {whose}: {offer} is {price}. Nothing was rented."""

    code = "over-max-price"
    retry = True
    next_step = "sojourn plan"


class BudgetTooSmall(Misuse):
    """The job's `budget`, {budget}, does not pay for {time} of {offer} at {price}. Nothing was rented."""

    code = "budget-too-small"
    next_step = "sojourn offers, or a larger `budget`"


class NotWithinLimits(Refusal):
    """`-y` rents only within `max_price` and `budget`, and {why}. Nothing was rented."""

    code = "not-within-limits"
    next_step = "sojourn run --confirm {lease}"


@dataclass(frozen=True)
class Wish:
    """What a job would rent. `yes`: its user wants no question (`-y`). `budget`: (micro-units, currency) of the job;
    `most`: the same an hour, beside the site's `max_price`. `run_s`: how long the run may take, None for no limit.

    `another`: a machine that no run was ever on, though the site may have others. `lease`: the name that its lease has,
    or is to have; "" for any. `waits`: until something can be had.
    """

    need: Need = field(default_factory=Need)
    budget: tuple[int, str] | None = None
    yes: bool = False
    another: bool = False
    most: tuple[int, str] | None = None
    run_s: float | None = None
    lease: str = ""
    waits: bool = False
    verb: str = "run"


def cheapest(site: Site, offers: Sequence[Offer], most: tuple[int, str] | None = None) -> Offer | None:
    """The first offer within the site's `max_price` and `most`; None where nothing is offered.

    Raises: OverMaxPrice, Misuse (an invalid `max_price`, or one in another currency).
    """
    found = within(site, offers, most)
    if found or not offers:
        return found[0] if found else None
    raise over(site, offers[0], most)


def within(site: Site, offers: Sequence[Offer], most: tuple[int, str] | None = None) -> list[Offer]:
    """The offers that cost no more than the site's `max_price` and `most`, (micro-units an hour, currency), allow.

    Raises: Misuse (an invalid `max_price`, or one in another currency).
    """
    caps = [(cap, where) for cap, where in _caps(site, most) if cap is not None]
    return [
        one
        for one in offers
        if not caps
        or one.is_rate_known
        and all(one.rate_micro_per_h <= _in(cap, one.currency, where) for cap, where in caps)
    ]


def over(site: Site, offer: Offer, most: tuple[int, str] | None = None) -> OverMaxPrice:
    """The error where the cheapest, `offer`, is not within the limits; it names the lower limit."""
    cap, where = min(((cap, where) for cap, where in _caps(site, most) if cap is not None), key=lambda one: one[0][0])
    whose = f"the `max_price` of {site.name}" if where.startswith("[") else where
    return OverMaxPrice(cap=units.say_money(*cap), whose=whose, offer=offer.native, price=in_words(offer))


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


def agree(ctx: Context, site: Site, lease: str, offer: Offer, wish: Wish) -> str:
    """Return where this may be rented now; `lease` is its name then. The name that its user gave to that, by which a
    machine that never gets ready is released; "" where `-y` was enough.   Raises: NotConfirmed, NotWithinLimits,
    BudgetTooSmall.
    """
    short = too_small(offer, wish)
    if short is not None:
        raise short
    question = _ask(site, lease, offer, wish)
    if wish.yes:
        why = beyond(site, offer, wish)
        if not why:
            return ""
        if ctx.confirm(question) != lease:
            raise NotWithinLimits(lease=lease, why=why, lines=list(question.lines))
        return lease
    return confirmed(ctx.confirm, question)


def too_small(offer: Offer, wish: Wish) -> BudgetTooSmall | None:
    """The error where the budget pays neither for an hour nor for the whole run, if that is shorter."""
    least_s = min(3600.0, wish.run_s or 3600.0)
    if wish.budget is None or wish.budget[1] != offer.currency or not offer.is_rate_known:
        return None
    if wish.budget[0] >= money.spent_micro(offer.rate_micro_per_h, 0.0, least_s):
        return None
    time = "an hour" if least_s == 3600.0 else units.say_seconds(least_s)
    return BudgetTooSmall(budget=units.say_money(*wish.budget), time=time, offer=offer.native, price=in_words(offer))


def beyond(site: Site, offer: Offer, wish: Wish) -> str:
    """Why `-y` does not rent it; "" where it does."""
    if not offer.is_rate_known:
        return f"{site.provider} does not say what {offer.native} costs"
    if max_price(site) is None and wish.most is None:
        return f"neither [sites.{site.name}.{site.provider}] nor the job has a `max_price`"
    if wish.budget is None:
        return "the job has no `budget`"
    if wish.budget[1] != offer.currency:
        return f"the job's `budget` is in {wish.budget[1]}, and {offer.native} costs {offer.currency}"
    return ""


def _ask(site: Site, lease: str, offer: Offer, wish: Wish) -> Ask:
    lines = [
        f"rent {offer.native} from {site.provider} as {lease}, at {in_words(offer)}",
        f"its meter runs from now until `sojourn down {lease}`, even while nothing trains on it",
        f"if it cannot be reached within {units.say_seconds(READY_S)}, it is released: nothing can be on it then",
    ]
    if wish.budget is None and wish.verb == "run":
        lines.append("the job has no `budget`: nothing stops its process when it becomes expensive")
    if wish.budget and offer.is_rate_known and wish.budget[1] == offer.currency:
        paid_s = money.affords_s(wish.budget[0], offer.rate_micro_per_h)
        lines.append(
            f"the job's budget, {units.say_money(*wish.budget)}, pays for {units.say_seconds(paid_s or 0.0)} of it"
        )
    return Ask(wish.verb, lease, tuple(lines), f"the same command with --confirm {lease}", doing="rent it")


_MOST = "the `max_price` given"


def _caps(site: Site, most: tuple[int, str] | None) -> list[tuple[tuple[int, str] | None, str]]:
    """Every limit, and where it is from."""
    return [(max_price(site), f"[sites.{site.name}.{site.provider}] max_price"), (most, _MOST)]


def _in(cap: tuple[int, str], currency: str, where: str) -> int:
    if cap[1] != currency:
        raise Misuse(detail=f"{where} is in {cap[1]}, and its machines cost {currency}")
    return cap[0]
