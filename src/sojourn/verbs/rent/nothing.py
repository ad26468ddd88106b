"""Why nothing can be rented, in one line: too dear, no such GPU, none in stock, or nobody answered."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Site
from sojourn.store.catalog import is_gpu, nearest_gpu
from sojourn.verbs.rent.market import Quote
from sojourn.verbs.rent.price import over
from sojourn.wire.errors import Misuse, SojournError, WorldError


class UnknownGpu(Misuse):
    """No GPU is called {name!r}{hint}, and no provider offers one."""

    code = "unknown-gpu"
    next_step = "sojourn offers"


class NothingOffered(WorldError):
    """No machine with {what} can be rented now ({asked})."""

    code = "nothing-offered"
    retry = True
    next_step = "sojourn offers (again later, or with other --gpus)"


def why_nothing(
    quotes: Sequence[Quote],
    need: Need,
    dear: Sequence[tuple[Site, Offer]],
    most: tuple[int, str] | None,
    *,
    is_spot: bool = False,
) -> SojournError:
    """The error for no offer. `dear`: what was offered and is over a limit, `most` or the site's own.

    Where nobody answered it is the error of one that was asked, the worst.
    """
    if dear:
        site, offer = min(dear, key=lambda one: (not one[1].is_rate_known, one[1].rate_micro_per_h))
        return over(site, offer, most)
    failed = [one for one in quotes if one.error]
    errors = [one.error for one in failed if one.error]
    if errors and len(errors) == len(quotes):
        return max(errors, key=lambda error: error.exit_status)
    for name, _ in need.accelerators:
        if not is_gpu(name):
            near = nearest_gpu(name)
            return UnknownGpu(name=name, hint=f"; the nearest is {near!r}" if near else "")
    wanted = " or ".join(f"{name}:{count}" for name, count in need.accelerators) or "a GPU"
    wanted += " to bid for" if is_spot else ""
    answered = ", ".join(one.site.name for one in quotes if not one.error)
    silent = f"; no answer: {', '.join(one.site.name for one in failed)}" if failed else ""
    return NothingOffered(what=wanted, asked=f"asked: {answered}{silent}")
