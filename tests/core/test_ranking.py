"""What a run would cost on an offer: every part in integer millionths, and the order that follows from it."""

import pytest

from sojourn.core.ports import Offer
from sojourn.core.ranking import Errand, ranked, run_cost

HOUR = Errand(run_s=3600.0)


def offer(
    native: str = "a", rate: int = 1_000_000, currency: str = "USD", known: bool = True, **facts: object
) -> Offer:
    return Offer(native, rate, currency, facts, is_rate_known=known)


def total(one: Offer, errand: Errand = HOUR) -> int:
    cost = run_cost(one, errand)
    assert cost is not None and all(type(part) is int for part in vars(cost).values())
    return cost.total_micro


def test_a_run_costs_its_hours_and_at_least_what_is_billed_at_least() -> None:
    assert total(offer(), Errand(run_s=5400.0)) == 1_500_000
    assert total(offer(minimum_s=3600), Errand(run_s=60.0)) == 1_000_000


def test_a_disk_is_counted_by_the_hour_and_traffic_by_what_comes_home() -> None:
    cost = run_cost(offer(disk_micro_per_gib_month=100_000, disk_gib=730, egress_micro_per_gib=10_000), HOUR)
    assert cost is not None and (cost.disk_micro, cost.traffic_micro) == (100_000, 0)
    with_results = run_cost(offer(egress_micro_per_gib=10_000), Errand(out_gib=2.5))
    assert with_results is not None and with_results.traffic_micro == 25_000


def test_a_spot_machine_costs_the_time_that_interruptions_are_expected_to_undo() -> None:
    often, seldom = Errand(run_s=36_000.0, mtbf_s=3600.0), Errand(run_s=36_000.0, mtbf_s=360_000.0)
    assert total(offer(is_spot=True), often) > total(offer(is_spot=True), seldom) > total(offer(), often)
    assert total(offer(is_spot=True), Errand(mtbf_s=1.0, write_s=0.1)) <= 2_000_000  # never more than all of it


def test_a_host_that_is_often_away_costs_more_than_one_that_is_not() -> None:
    assert total(offer(reliability=0.9)) == 1_111_112 and total(offer(reliability=1.0)) == 1_000_000


def test_the_cheapest_run_is_first_though_another_has_the_lower_price_an_hour() -> None:
    dear_disk = offer("disk", 900_000, disk_micro_per_gib_month=1_000_000, disk_gib=500)
    assert [one.native for one in ranked([dear_disk, offer("plain")], HOUR)] == ["plain", "disk"]


def test_what_has_no_known_price_is_last_and_no_number() -> None:
    mystery = offer("mystery", 0, known=False)
    assert run_cost(mystery, HOUR) is None
    assert [one.native for one in ranked([mystery, offer("dear", 9_000_000)], HOUR)] == ["dear", "mystery"]


@pytest.mark.parametrize(("currency", "first"), [("CNY", "yuan"), ("USD", "dollar"), ("", "dollar")])
def test_offers_in_the_currency_of_the_limits_come_first(currency: str, first: str) -> None:
    found = [offer("yuan", 5, "CNY"), offer("dollar", 7), offer("dollar2", 8)]
    assert ranked(found, HOUR, currency)[0].native == first
