"""What every provider must hold to. Use: subclass `ProviderContract` in a test file and give it the fixtures.

    class TestMine(ProviderContract):
        @pytest.fixture
        def provider(self): return mine.Backend(site)
        @pytest.fixture
        def need(self): return Need()

For one that rents, the fixtures of `provider_faults.py` say how its stub is made to fail; the suite fails without them.

A backend that rents is given a stub of its API by its fixtures, and its class says so: `rents_a_stub = True`. Without
that every test that would take a machine fails before it does, so that no test here spends money by itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from sojourn.core.law import Clearance, Facts, Given, clear
from sojourn.core.need import Need
from sojourn.core.values import Lease, NoAnswer, Pulse
from sojourn.testing.contracts.provider_faults import ProviderFaults
from sojourn.wire.errors import Defect

NOW_S = 1_800_000_000.0


class ProviderContract(ProviderFaults):
    """One method, one promise. `boot_s`: how long a machine may take until it is ready."""

    boot_s = 10.0
    rents_a_stub = False  # what `provider` asks is a stub of its API: taking a machine costs nothing

    def take(self, provider: Any, need: Need, token: str, now_s: float = NOW_S) -> Any:
        """Take the cheapest offer, where that costs nothing."""
        if provider.rents and not self.rents_a_stub:
            pytest.fail("this provider rents machines; if its fixture is a stub of its API, say rents_a_stub = True")
        return provider.take(provider.offers(need)[0], token, now_s)

    def lease(self, provider: Any, need: Need, token: str = "token-1") -> Lease:
        """A lease taken on the cheapest offer."""
        lease = self.take(provider, need, token)
        assert isinstance(lease, Lease), lease
        return lease

    def found(self, provider: Any, token: str) -> list[str]:
        """Native ids of what `find` finds."""
        return [one.native for one in provider.find(token, NOW_S)]

    def clearance(self, lease: Lease) -> Clearance:
        """Of a box that no run was ever on."""
        facts = Facts((), NOW_S)
        return clear(lease, facts, Given(lease.name, shown=facts.digest()), NOW_S)

    def test_its_traits_are_data(self, provider: Any) -> None:
        """What the law and the screen rely on is said by the class."""
        assert isinstance(provider.metered, bool) and isinstance(provider.stops_itself, bool)
        assert isinstance(provider.rents, bool) and (provider.metered or not provider.rents)
        assert isinstance(provider.is_final, bool) and isinstance(provider.stop_verb, str) and provider.stop_verb

    def test_offers_come_cheapest_first_with_a_currency(self, provider: Any, need: Need) -> None:
        """The first offer is the one that is taken."""
        offers = provider.offers(need)
        assert offers and [o.rate_micro_per_h for o in offers] == sorted(o.rate_micro_per_h for o in offers)
        assert all(type(o.rate_micro_per_h) is int and o.rate_micro_per_h >= 0 and o.currency for o in offers)
        assert provider.metered or all(o.rate_micro_per_h == 0 for o in offers)

    def test_a_token_finds_its_machine_as_long_as_there_is_one(self, provider: Any, need: Need) -> None:
        """From the provider's own list, so that no answer that was lost leaves a machine that nobody knows."""
        assert self.found(provider, "token-1") == []
        if not provider.rents:
            return
        lease = self.lease(provider, need)
        assert self.found(provider, "token-1") == [lease.native] == self.found(provider, "token-1")
        assert self.found(provider, "token-") == self.found(provider, "token-11") == []
        provider.release(lease, self.clearance(lease))
        assert self.found(provider, "token-1") == []

    def test_a_machine_has_an_address_when_it_is_ready(self, provider: Any, need: Need) -> None:
        """And not before; what was there anyway is ready at once."""
        lease = self.lease(provider, need)
        give_up_s = time.monotonic() + self.boot_s
        while isinstance(ready := provider.ready(lease, 5.0), NoAnswer):
            assert ready.kind == "not-ready" and time.monotonic() < give_up_s
            time.sleep(0.05)
        assert (ready.name, ready.native) == (lease.name, lease.native) and bool(ready.address) is provider.rents

    def test_another_token_is_another_lease(self, provider: Any, need: Need) -> None:
        """So that a clearance of an earlier lease of this name clears no later one."""
        assert self.lease(provider, need, "token-1").native != self.lease(provider, need, "token-2").native

    def test_a_lease_says_what_it_costs_and_how_it_ends(self, provider: Any, need: Need) -> None:
        """Everything that `leases` and `down` show."""
        lease, offer = self.lease(provider, need), provider.offers(need)[0]
        assert (lease.rate_micro_per_h, lease.currency) == (offer.rate_micro_per_h, offer.currency)
        for one in provider.find("token-1", NOW_S):
            assert one.token == lease.token  # a list may leave its disk out of a machine's price
            assert lease.rate_micro_per_h / 2 <= one.rate_micro_per_h <= lease.rate_micro_per_h * 2
        assert lease.name and lease.site and lease.provider and lease.stop_verb and lease.began_s <= NOW_S

    def test_a_rate_that_is_not_known_is_said_and_is_no_number(self, provider: Any, need: Need) -> None:
        """It is never taken for free."""
        lease, offer = self.lease(provider, need), provider.offers(need)[0]
        assert lease.is_rate_known == offer.is_rate_known and isinstance(lease.is_rate_known, bool)
        assert lease.is_rate_known or (lease.rate_micro_per_h == 0 and not lease.is_free)

    def test_the_same_clearance_holds_for_the_stop_that_keeps_the_disk(self, provider: Any, need: Need) -> None:
        """Where there is one. To `look` the machine is stopped then, and not gone."""
        lease = self.lease(provider, need)
        if lease.keep_verb:
            kept = replace(lease, stop_verb=lease.keep_verb, is_final=False)
            assert lease.keep_verb in provider.release(kept, self.clearance(lease))
            if provider.rents:
                assert provider.look(lease) is provider.look(kept) is Pulse.STOPPED

    def test_a_look_says_alive_gone_or_unknown(self, provider: Any, need: Need) -> None:
        """And never gone of what was just taken."""
        assert provider.look(self.lease(provider, need)) in (Pulse.ALIVE, Pulse.UNKNOWN)

    @pytest.mark.parametrize("thing", [None, "token-1", object(), True])
    def test_nothing_but_a_clearance_releases(self, provider: Any, need: Need, thing: object) -> None:
        """A provider checks for itself: it is the last door."""
        with pytest.raises(Defect):
            provider.release(self.lease(provider, need), thing)

    def test_a_clearance_of_another_lease_releases_nothing(self, provider: Any, need: Need) -> None:
        """By name and by native id."""
        lease = self.lease(provider, need)
        for other in (replace(lease, name="other"), replace(lease, native="other")):
            with pytest.raises(Defect):
                provider.release(lease, self.clearance(other))

    def test_releasing_twice_says_so_in_one_line_each_time(self, provider: Any, need: Need) -> None:
        """Idempotent, and never silent."""
        lease = self.lease(provider, need)
        clearance = self.clearance(lease)
        for _ in range(2):
            line = provider.release(lease, clearance)
            assert line and "\n" not in line
