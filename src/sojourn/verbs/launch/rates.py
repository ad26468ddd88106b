"""The wording for a box of unknown cost: unknown is not free."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core.values import Site


def advice(site: Site) -> str:
    """What to write into the settings so that the meter of this site is known."""
    table = site.name if ":" not in site.name else "NAME"
    is_alias = table != site.name
    where = f'transport = "{site.transport}" and address = "{site.address}", ' if is_alias else ""
    rate = 'rate = "1.19 USD/h", or "0 USD/h" where it is free'
    return f"write [sites.{table}] into your settings, with {where}{rate}"


def words(site: Site, is_metered: bool, has_budget: bool = False) -> Sequence[str]:
    """What to say of a site whose rate is not known. `is_metered`: it is one to be stopped by hand."""
    known = "is billed until you stop it, at an unknown rate" if is_metered else "may cost money: rate unknown"
    budget = "; a `budget` cannot be enforced there" if has_budget else ""
    return [f"{site.name} {known}{budget} ({advice(site)})"]
