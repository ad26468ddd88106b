"""All providers that a key is there for, asked side by side what they would rent.

One that fails, or does not answer in time, is an answer of its own: it never ends or delays the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sojourn import backends
from sojourn.core.need import Need
from sojourn.core.ports import Offer
from sojourn.core.values import Site
from sojourn.store.settings import read_settings
from sojourn.verbs.context import Context, plain_site, provider_of
from sojourn.wire.errors import Misuse, SojournError, Unreachable, WorldError
from sojourn.wire.names import nearest

ASK_S = 20.0  # each provider; a slower one is left out


class NoProviderKey(Misuse):
    """No API key for any provider was found; looked for {looked}."""

    code = "no-provider-key"
    next_step = "export one of them, then sojourn offers"


class NoSuchProvider(Misuse):
    """No provider that rents machines is called {name!r}{hint}."""

    code = "no-such-provider"
    next_step = "sojourn offers"


class TooSlow(Unreachable):
    """{site} did not list its offers within {seconds:g} s."""

    code = "too-slow"
    next_step = "sojourn offers --provider {site}"


class OddAnswer(WorldError):
    """{site} sent an answer that sojourn cannot read: {detail}."""

    code = "odd-answer"
    next_step = "sojourn doctor {site}"


@dataclass(frozen=True)
class Quote:
    """What one site's provider said. `error`: in place of offers."""

    site: Site
    offers: tuple[Offer, ...] = ()
    error: SojournError | None = None


def renting() -> list[str]:
    """Names of the providers that rent machines."""
    return [name for name in backends.names("provider") if backends.get("provider", name).rents]


def market(provider: str = "") -> tuple[list[Site], dict[str, str]]:
    """(sites that could rent, {provider: its variable} of those left out because no key is there).

    A site of the settings is among them whether its key is found or not. A provider that no settings name is a site of
    its own name if its variable is set.   Raises: NoSuchProvider, BadSettings.
    """
    known = renting()
    settings = [one for one in read_settings().sites.values() if one.provider in known]
    if provider:
        mine = [one for one in settings if provider in (one.name, one.provider)]
        if not mine and provider not in known:
            near = nearest(provider, known)
            hint = f"; the nearest is {near!r}" if near else f"; there are {', '.join(known)}"
            raise NoSuchProvider(name=provider, hint=hint)
        plain = plain_site(provider)
        return mine or ([plain] if plain else []), {}
    sites, without = list(settings), {}
    for name in known:
        if any(one.provider == name for one in settings):
            continue
        env = str(getattr(backends.get("provider", name), "key_env", ""))
        site = plain_site(name)
        if site is not None and has_key(site, env):
            sites.append(site)
        else:
            without[name] = env
    return sites, without


def has_key(site: Site, env: str) -> bool:
    """Whether a key is there. A provider without a variable of its own finds its key itself."""
    from sojourn.backends.client import keys

    if not env:
        return True
    try:
        keys.api_key(site, env)
    except keys.NoKey:
        return False
    return True


def with_spot(site: Site) -> Site:
    """The site, asked for machines that may be taken back."""
    own = {**(site.options.get(site.provider) or {}), "spot": True}
    return replace(site, options={**site.options, site.provider: own})


def ask_all(ctx: Context, sites: Sequence[Site], need: Need, deadline_s: float = ASK_S) -> list[Quote]:
    """What each would rent for `need` now, in the order of `sites`. Blocks for `deadline_s` at most."""
    found: dict[int, Quote] = {}
    until_s = time.monotonic() + deadline_s
    # Daemons: one that hangs keeps neither this command nor the interpreter.
    threads = [
        threading.Thread(target=_ask, args=(found, number, site, need, deadline_s), daemon=True)
        for number, site in enumerate(sites)
    ]
    for thread in threads:
        thread.start()
    for site, thread in zip(sites, threads, strict=True):
        ctx.say(f"asking {site.name}")
        thread.join(max(0.0, until_s - time.monotonic()))
    late = [Quote(site, error=TooSlow(site=site.name, seconds=deadline_s)) for site in sites]
    return [found.get(number, late[number]) for number in range(len(sites))]


def _ask(found: dict[int, Quote], number: int, site: Site, need: Need, deadline_s: float) -> None:
    from sojourn.backends.client.https import patient_for

    try:
        with patient_for(deadline_s * 0.9):  # then it can still say why it has no answer
            found[number] = Quote(site, tuple(provider_of(site).offers(need)))
    except SojournError as error:
        found[number] = Quote(site, error=error)
    except (AttributeError, LookupError, TypeError, ValueError, OSError) as error:  # an answer of another shape
        detail = f"{type(error).__name__}: {error}"[:200]
        found[number] = Quote(site, error=OddAnswer(site=site.name, detail=detail))
