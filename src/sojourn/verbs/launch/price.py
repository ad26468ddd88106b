"""What a machine would cost, by its provider's own word, and the user's answer to that before anything is rented."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core import money
from sojourn.core.ports import Offer
from sojourn.core.values import Site
from sojourn.verbs.answers import Ask
from sojourn.verbs.confirm import confirmed
from sojourn.verbs.context import Context
from sojourn.wire import units
from sojourn.wire.errors import Misuse, Refusal

Money = tuple[int, str]  # micro-units, currency


class OverPrice(Refusal):
    """{site} offers nothing within its `max_price` of {most}; the cheapest is {cheapest}. Nothing was rented."""

    code = "over-max-price"
    next_step = "sojourn plan, or raise max_price in [sites.{site}.{provider}] of your settings"


def max_price(site: Site) -> Money | None:
    """The most per hour that a machine of this site may cost, by `max_price` in [sites.NAME.PROVIDER]."""
    table = site.options.get(site.provider)
    return money.read_rate(table["max_price"]) if isinstance(table, dict) and "max_price" in table else None


def affordable(site: Site, offers: Sequence[Offer]) -> Sequence[Offer]:
    """Those within the site's `max_price`: an unknown price, or one in another currency, is not."""
    most = max_price(site)
    return offers if most is None else [one for one in offers if _is_within(one, most)]


def over_price(site: Site, offers: Sequence[Offer]) -> OverPrice:
    """The error for a site all of whose `offers` cost too much."""
    cheapest = next((one for one in offers if one.is_rate_known), offers[0])
    most = max_price(site)
    assert most is not None  # otherwise nothing costs too much
    words = f"{cheapest.native} at {in_words(cheapest)}"
    return OverPrice(site=site.name, provider=site.provider, most=f"{units.say_money(*most)} per hour", cheapest=words)


def in_words(offer: Offer) -> str:
    """Its price, for people."""
    if not offer.is_rate_known:
        return "an unknown price"
    return f"{units.say_money(offer.rate_micro_per_h, offer.currency)} per hour"


def agree(ctx: Context, site: Site, lease: str, offer: Offer, budget: Money | None) -> None:
    """Return where the user wants to pay for `offer`; `lease` is what its machine will be called.

    `-y` answers only where both the site's `max_price` and the job's `budget` limit what it can cost.
    Raises: NotConfirmed, Misuse (a budget in another currency); then nothing was rented.
    """
    if budget is not None and offer.is_rate_known and budget[1] != offer.currency:
        raise Misuse(detail=f"`budget` is in {budget[1]}, and {site.provider} charges {offer.currency} for {site.name}")
    most = max_price(site)
    limits = [
        "max_price: " + ("not set" if most is None else f"{units.say_money(*most)} per hour"),
        "budget: " + ("not set" if budget is None else f"{units.say_money(*budget)} for this run"),
    ]
    is_limited = most is not None and budget is not None and _is_within(offer, most)
    lines = (
        f"rent {offer.native} from {site.provider} as {lease}, at {in_words(offer)}",
        f"you pay until you release it: sojourn down {lease}",
        "; ".join(limits) + ("" if is_limited else f" (-y needs max_price in [sites.{site.name}] and budget)"),
    )
    command = f"the same command with --confirm {lease}"
    confirmed(ctx.confirm, Ask("run", lease, lines, command, doing="rent it", is_limited=is_limited))


def _is_within(offer: Offer, most: Money) -> bool:
    return offer.is_rate_known and offer.currency == most[1] and offer.rate_micro_per_h <= most[0]
