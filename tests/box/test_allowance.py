"""What of a budget is told, and when next."""

from __future__ import annotations

import pytest

from sojourn.box.supervise.allowance import Allowance, passed

NEVER = float("inf")


@pytest.mark.parametrize(
    ("spent_s", "mark"), [(0, 0), (49.9, 0), (50, 50), (79.9, 50), (80, 80), (99, 80), (100, 100), (1e9, 100)]
)
def test_a_mark_is_passed_when_it_is_reached(spent_s: float, mark: int) -> None:
    assert passed(spent_s, 100.0) == mark


def test_each_mark_is_told_once_and_of_several_the_highest() -> None:
    allowance = Allowance((0, 0.0))
    told = [allowance.look(spent_s, 10.0).get("pct") for spent_s in (1, 5, 5.1, 9, 9.5, 12, 13)]
    assert told == [None, 50, None, 80, None, 100, None]


def test_a_keeper_that_takes_over_tells_nothing_again() -> None:
    assert Allowance((80, 10.0)).look(9.0, 10.0) == {}
    assert Allowance((80, 10.0)).look(10.0, 10.0)["pct"] == 100


def test_another_limit_is_told_anew() -> None:
    allowance = Allowance((100, 10.0))
    assert allowance.look(10.0, 40.0) == {}
    assert allowance.look(20.0, 40.0)["pct"] == 50


def test_the_next_mark_is_waited_for_and_no_longer() -> None:
    allowance = Allowance((0, 0.0))
    assert [allowance.left_s(spent_s, 10.0) for spent_s in (0, 5, 8, 10)] == [5, 3, 2, NEVER]
    assert allowance.left_s(5, None) == NEVER and allowance.look(5, None) == {}
