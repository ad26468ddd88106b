"""Providers that rent nothing: a free box, and one that its user stops by hand."""

from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.provider import by_hand, unmetered
from sojourn.core.law import clear
from sojourn.core.need import Need
from sojourn.core.values import Pulse, Site
from sojourn.store.settings import read_site
from sojourn.testing.contracts.provider import NOW_S, ProviderContract

OWN = Site("rented", provider="by_hand", platform="generic-ssh", rate_micro_per_h=1_190_000, currency="EUR")


@pytest.fixture(params=backends.names("provider"))
def provider(request: pytest.FixtureRequest) -> Any:
    return backends.get("provider", request.param)(OWN)


@pytest.fixture
def need() -> Need:
    return Need()


class TestContract(ProviderContract):
    """Every provider there is."""


def test_a_free_box_costs_nothing_and_says_that_there_is_nothing_to_stop() -> None:
    box = unmetered.Backend(Site("local"))
    lease = box.take(box.offers(Need())[0], "local-0", NOW_S)
    assert (lease.name, lease.rate_micro_per_h, lease.is_final, lease.clocks) == ("local", 0, False, ())
    assert box.release(lease, clear(lease, [], "local", NOW_S)).startswith("nothing to stop")


def test_nobody_can_say_that_such_a_box_is_gone() -> None:
    """Twice gone would settle the lease and what it holds would count as lost."""
    for module in (unmetered, by_hand):
        box = module.Backend(OWN)
        assert box.look(box.take(box.offers(Need())[0], "t", NOW_S)) is Pulse.UNKNOWN


def test_a_box_stopped_by_hand_takes_what_its_platform_says_where_the_user_says_nothing() -> None:
    box = by_hand.Backend(OWN)
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    assert (lease.rate_micro_per_h, lease.currency, lease.began_s) == (1_190_000, "EUR", NOW_S)
    assert lease.is_final and lease.facts_verified == "2026-06" and "console" in lease.stop_verb
    assert [clock.what for clock in lease.clocks] == ["nothing reclaims the box"]


def test_the_users_own_words_clocks_and_beginning_win(tmp_path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        '[sites.mine]\nprovider = "by_hand"\ntransport = "ssh"\nrate = "2 USD/h"\nstop = "press Stop"\n'
        "stop_is_final = false\nbegan = 2026-11-21T10:00:00Z\n"
        '[[sites.mine.clocks]]\nwhat = "disk deleted"\nat = "after 15 days"\nloses = "all"\n'
    )
    box = by_hand.Backend(read_site("mine", str(path)))
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    assert (lease.stop_verb, lease.is_final, lease.facts_verified) == ("press Stop", False, "")
    assert lease.began_s == 1795255200.0 and [clock.what for clock in lease.clocks] == [
        "disk deleted",
        "nothing reclaims the box",
    ]


def test_a_meter_does_not_begin_in_the_future() -> None:
    box = by_hand.Backend(Site("m", rate_micro_per_h=1, options={"began": "2099-01-01T00:00:00.000Z"}))
    assert box.take(box.offers(Need())[0], "t", NOW_S).began_s == NOW_S


def test_letting_go_by_hand_says_what_to_do_now_what_it_costs_until_then_and_that_it_is_final() -> None:
    box = by_hand.Backend(OWN)
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    line = box.release(lease, clear(lease, [], "rented", NOW_S))
    assert line.startswith("the meter runs at 1.19 EUR/h until you do this now: destroy the box") and "no undo" in line


def test_a_box_stopped_by_hand_without_a_rate_is_refused() -> None:
    with pytest.raises(by_hand.NoRate) as caught:
        by_hand.Backend(Site("m")).offers(Need())
    assert caught.value.exit_status == 2 and "rate = " in caught.value.next
