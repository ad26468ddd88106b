"""Money is counted in whole micro-units, and a currency is never guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.money import affords_s, read_money, read_rate, shared_s, spent_micro


@pytest.mark.parametrize(
    ("text", "micro", "currency"),
    [
        ("20 USD", 20_000_000, "USD"),
        ("0.5eur", 500_000, "EUR"),
        (" 1.190001 CNY ", 1_190_001, "CNY"),
        ("0 USD", 0, "USD"),
    ],
)
def test_an_amount_is_read_exactly(text: str, micro: int, currency: str) -> None:
    assert read_money(text) == (micro, currency)
    assert read_rate(f"{text}/h") == read_rate(f"{text} per hour") == (micro, currency)


@pytest.mark.parametrize(
    "text", ["20", 20, "", "USD", "-1 USD", "1e3 USD", "1.1234567 USD", "20 USDT", "nan USD", None, True]
)
def test_what_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        read_money(text)


@pytest.mark.parametrize("text", ["1 USD", "1/h", "USD/h", "1 USD/min", "", 1.19])
def test_what_is_no_rate_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a rate"):
        read_rate(text)


def test_an_hour_costs_the_rate() -> None:
    assert spent_micro(1_190_000, 1000.0, 4600.0) == 1_190_000


def test_a_meter_never_rounds_down_to_nothing() -> None:
    assert spent_micro(1, 0.0, 1.0) == 1


def test_a_free_box_costs_nothing_and_a_clock_that_ran_back_earns_nothing() -> None:
    assert spent_micro(0, 0.0, 1e9) == 0 and spent_micro(10**6, 100.0, 0.0) == 0


@given(st.integers(0, 10**9), st.floats(0, 1e7), st.floats(0, 1e7))
def test_what_was_spent_only_grows(rate: int, first_s: float, more_s: float) -> None:
    assert spent_micro(rate, 0.0, first_s) <= spent_micro(rate, 0.0, first_s + more_s)


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_the_time_a_budget_affords_spends_no_more_than_it(budget: int, rate: int) -> None:
    afforded = affords_s(budget, rate)
    assert afforded is not None and spent_micro(rate, 0.0, int(afforded)) <= budget


def test_no_budget_is_spent_where_the_box_is_free() -> None:
    assert affords_s(10, 0) is None


@given(st.dictionaries(st.text(max_size=3), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8))
def test_what_shares_a_meter_adds_up_to_the_time_in_which_any_ran(raw: dict[str, tuple[int, int]]) -> None:
    spans = {name: [(float(a), float(a + took))] for name, (a, took) in raw.items()}
    shares = shared_s(spans)
    busy = {second for ((a, b),) in spans.values() for second in range(int(a), int(b))}
    assert set(shares) == set(spans) and sum(shares.values()) == pytest.approx(len(busy))
    for name, ((a, b),) in spans.items():
        alone = sum(1 / sum(c <= s < d for ((c, d),) in spans.values()) for s in range(int(a), int(b)))
        assert shares[name] == pytest.approx(alone)


def test_attempts_of_one_run_never_share_with_themselves() -> None:
    assert shared_s({"a": [(0, 10), (10, 20)], "b": [(5, 15)]}) == {"a": 15.0, "b": 5.0}
