"""The start that providers with an HTTP API share: their traits, their account, and its answers as errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from sojourn.backends.client import answers, keys, machines
from sojourn.backends.client.https import Api, Reply
from sojourn.core.values import Lease, NoAnswer, Site
from sojourn.wire.errors import WorldError


class CannotWake(WorldError):
    """{lease} is stopped, and sojourn cannot have {provider} start it again."""

    code = "cannot-wake"
    next_step = "start it in the console of {provider}, or sojourn down {lease}"


class Renting:
    """A provider that rents machines by an HTTP API. `stop`: how one is released, and how stopped so that its disk
    stays ("" for not at all). `key_env`: the variable that has the account's key.
    """

    metered: ClassVar[bool] = True
    rents: ClassVar[bool] = True
    stops_itself: ClassVar[bool] = True
    is_final: ClassVar[bool] = True
    stop_verb: ClassVar[str]
    stop: ClassVar[tuple[str, str]]
    key_env: ClassVar[str]
    currency: ClassVar[str] = "USD"

    def __init__(self, site: Site, api: Api) -> None:
        self._site, self._api = site, api

    def wake(self, lease: Lease) -> str:
        """Where its API has no such call. Raises: CannotWake."""
        raise CannotWake(lease=lease.name, provider=self._site.provider)

    def _woken(self, lease: Lease, reply: Reply | NoAnswer) -> str:
        """The line of a `wake`. Raises: KeyRefused, ProviderSays, ProviderSilent."""
        done = answers.accepts(reply)
        if done is False:
            self._must(reply, f"start {lease.native}")
        asked = f"{self._site.provider} was told to start {lease.native}"
        return asked if done else f"{asked}; its answer was lost"

    @classmethod
    def key_of(cls, site: Site) -> Callable[[], keys.Key]:
        """What asks for the account's key, when the first call is made."""
        return lambda: keys.api_key(site, cls.key_env)

    def _must(self, reply: Reply | NoAnswer, what: str) -> Reply:
        """`reply`, if it is what was asked for. Raises: KeyRefused, ProviderSays, ProviderSilent."""
        site = self._site
        return answers.must(reply, provider=site.provider, site=site.name, key=self._api.key().name, what=what)

    def _asked(self, path: str, what: str, query: Mapping[str, Any] | None = None) -> Reply:
        return self._must(self._api.read(path, query), what)

    def _lease(self, native: str, token: str, rate: int | None, now_s: float, facts: Mapping[str, Any]) -> Lease:
        return machines.lease(self._site, native, token, (rate, self.currency), now_s, self.stop, facts)
