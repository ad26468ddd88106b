"""Providers that rent nothing: a free box, and one that its user stops by hand."""

from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.provider import by_hand, unmetered
from sojourn.core.law import Clearance, Facts, Given, clear
from sojourn.core.need import Need
from sojourn.core.plain import lease_from
from sojourn.core.values import Lease, Pulse, Site
from sojourn.store.settings import read_site
from sojourn.testing.contracts.provider import NOW_S, ProviderContract

OWN = Site("rented", provider="by_hand", platform="generic-ssh", rate_micro_per_h=1_190_000, currency="EUR")
UNPRICED = Site("unpriced", platform="generic-ssh")


@pytest.fixture(params=[name for name in backends.names("provider") if not backends.get("provider", name).rents])
def provider(request: pytest.FixtureRequest) -> Any:
    return backends.get("provider", request.param)(OWN)


@pytest.fixture
def need() -> Need:
    return Need()


def cleared(lease: Lease) -> Clearance:
    facts = Facts((), NOW_S)
    return clear(lease, facts, Given(lease.name, shown=facts.digest()), NOW_S)


class TestContract(ProviderContract):
    """Every provider there is."""


class Paid(unmetered.Backend):
    """A provider that would spend money."""

    rents = True

    def take(self, offer: Any, token: str, now_s: float) -> Lease:
        raise AssertionError("a machine was taken")


def test_the_contract_takes_nothing_of_a_provider_that_rents_unless_it_is_called_a_stub() -> None:
    with pytest.raises(pytest.fail.Exception, match="rents_a_stub = True"):
        ProviderContract().lease(Paid(OWN), Need())


class TestContractWithoutARate(ProviderContract):
    """And where nobody said what the box costs."""

    @pytest.fixture(params=[name for name in backends.names("provider") if not backends.get("provider", name).rents])
    def provider(self, request: pytest.FixtureRequest) -> Any:
        return backends.get("provider", request.param)(UNPRICED)


def test_a_free_box_costs_nothing_and_says_that_there_is_nothing_to_stop() -> None:
    box = unmetered.Backend(Site("local"))
    lease = box.take(box.offers(Need())[0], "local-0", NOW_S)
    assert (lease.name, lease.rate_micro_per_h, lease.is_final, lease.clocks) == ("local", 0, False, ())
    assert box.release(lease, cleared(lease)).startswith("nothing to stop")


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
    assert [clock.what for clock in lease.clocks] == ["no automatic release"]


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
        "no automatic release",
    ]


def test_a_meter_does_not_begin_in_the_future() -> None:
    box = by_hand.Backend(Site("m", rate_micro_per_h=1, options={"began": "2099-01-01T00:00:00.000Z"}))
    assert box.take(box.offers(Need())[0], "t", NOW_S).began_s == NOW_S


def test_letting_go_by_hand_says_what_to_do_now_what_it_costs_until_then_and_that_it_is_final() -> None:
    box = by_hand.Backend(OWN)
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    line = box.release(lease, cleared(lease))
    assert (
        line.startswith("the meter runs at 1.19 EUR/h until you do this: destroy the box")
        and "cannot be undone" in line
    )


def test_without_a_rate_a_box_stopped_by_hand_is_let_go_as_one_whose_meter_may_run() -> None:
    box = by_hand.Backend(Site("m", provider="by_hand", platform="generic-ssh"))
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    assert not lease.is_rate_known and not lease.is_free
    line = box.release(lease, cleared(lease))
    assert line.startswith("the meter may be running (its rate is not known) until you do this: destroy the box")


@pytest.mark.parametrize(
    "table, provider, is_free",
    [
        ('rate = "0 USD/h"', "unmetered", True),
        ('provider = "unmetered"', "unmetered", True),
        ('platform = "runpod"\nrate = "0 USD/h"', "unmetered", True),
        ('platform = "runpod"', "by_hand", False),
        ('rate = "1.19 USD/h"', "by_hand", False),
        ("", "unmetered", False),  # nobody said what it is
        ('launcher = "sbatch"', "unmetered", True),
        ('launcher = "sbatch"\nrate = "1 USD/h"', "unmetered", False),  # what its jobs cost ends with them
    ],
)
def test_a_box_is_free_only_where_its_user_or_its_platform_says_so(
    tmp_path, table: str, provider: str, is_free: bool
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f'[sites.box]\ntransport = "ssh"\n{table}\n')
    site = read_site("box", str(path))
    box = backends.get("provider", site.provider)(site)
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    assert (site.provider, lease.is_free) == (provider, is_free)
    assert lease.is_rate_known == (is_free or lease.rate_micro_per_h > 0)


@pytest.mark.parametrize("name, is_free", [("local", True), ("slurm:hpc", True), ("ssh:gpu1", False)])
def test_a_site_without_settings_is_free_where_its_platform_is(tmp_path, name: str, is_free: bool) -> None:
    site = read_site(name, str(tmp_path / "none.toml"))
    box = unmetered.Backend(site)
    lease = box.take(box.offers(Need())[0], "t", NOW_S)
    assert (site.provider, lease.is_free) == ("unmetered", is_free)
    line = box.release(lease, cleared(lease))
    assert line.startswith("nothing to stop" if is_free else "nothing was stopped; whether this box costs money")


def test_the_stop_that_keeps_the_disk_is_the_platforms_or_the_users_own(tmp_path) -> None:
    def taken(table: str) -> Lease:
        path = tmp_path / "settings.toml"
        path.write_text(f'[sites.box]\ntransport = "ssh"\nrate = "1 USD/h"\n{table}\n')
        box = by_hand.Backend(read_site("box", str(path)))
        return box.take(box.offers(Need())[0], "t", NOW_S)

    assert taken('platform = "runpod"').keep_verb.startswith("stop the pod: /workspace stays")
    assert taken('platform = "lambda"').keep_verb == ""  # there is none: it bills until it is terminated
    assert taken('platform = "autodl"').keep_verb.startswith("关机")
    assert taken('stop = "press Destroy"').keep_verb == ""
    assert taken('stop = "press Stop"\nstop_is_final = false').keep_verb == "press Stop"
    assert taken('stop = "press Destroy"\nkeep_disk = "press Stop"').keep_verb == "press Stop"


def test_a_lease_of_an_older_journal_had_a_rate_that_was_known() -> None:
    old = {"name": "m", "site": "m", "provider": "by_hand", "native": "t", "rate_micro_per_h": 5, "currency": "USD"}
    lease = lease_from({**old, "began_s": 0.0, "stop_verb": "destroy", "is_final": True, "clocks": []})
    assert lease.is_rate_known and lease.keep_verb == ""
