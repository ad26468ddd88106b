"""Money in integer micro-units of a currency, and what a meter has cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_MONEY = re.compile(r"(\d+(?:\.\d{1,6})?)\s*([A-Za-z]{3})")
_RATE = re.compile(r"(.*?)\s*(?:/|per)\s*(?:h|hr|hour)\s*")


def read_money(text: object) -> tuple[int, str]:
    """(micro-units, currency) of "20 USD", "0.5 eur". Raises: ValueError, also without a currency: none is guessed."""
    hit = _MONEY.fullmatch(str(text).strip())
    if not hit:
        raise ValueError(f"not an amount of money: {str(text)!r} (write 20 USD)")
    whole, _, part = hit.group(1).partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0")), hit.group(2).upper()


def read_rate(text: object) -> tuple[int, str]:
    """(micro-units per hour, currency) of "1.19 USD/h". Raises: ValueError."""
    hit = _RATE.fullmatch(str(text).strip())
    try:
        return read_money(hit.group(1) if hit else "")
    except ValueError:
        raise ValueError(f"not a rate: {str(text)!r} (write 1.19 USD/h)") from None


def spent_micro(rate_micro_per_h: int, began_s: float, until_s: float) -> int:
    """A meter's cost from `began_s` to `until_s`, rounded up to a micro-unit; 0 if the clock ran backwards."""
    elapsed_ms = max(0, round((until_s - began_s) * 1000))
    return -(-rate_micro_per_h * elapsed_ms // 3_600_000)


def shared_s(spans: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, float]:
    """Each one's share of one meter: a second during which n of them run counts 1/n for each.

    `spans`: (began, ended) in seconds of one clock; spans of one name do not overlap. The shares add up to the time
    during which any runs, so never to more than the meter.
    """
    taken = dict.fromkeys(spans, 0.0)
    marks = [(at, way, name) for name, some in spans.items() for a, b in some if b > a for at, way in ((a, 1), (b, -1))]
    each, last, running = 0.0, 0.0, 0
    begun: dict[str, float] = {}
    # `each`: the share so far of a name that has run since the first mark.
    for at, way, name in sorted(marks):
        each += (at - last) / running if running else 0.0
        last = at
        running += way
        if way > 0:
            begun[name] = begun.get(name, 0.0) - each
        else:
            begun[name] += each
    return taken | begun


def affords_s(budget_micro: int, rate_micro_per_h: int) -> float | None:
    """Seconds that a budget pays for at a rate; None if the box is free and the budget lasts for ever."""
    return budget_micro * 3600 / rate_micro_per_h if rate_micro_per_h > 0 else None
