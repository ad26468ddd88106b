"""The checkpoint interval, against worked cases."""

from __future__ import annotations

import math

import pytest

from sojourn.wire import cadence

# mean time between interruptions, write time, interval: the worked cases of the project's procedures.
WORKED = [(10800.0, 30.0, 805), (3600.0, 30.0, 465), (86400.0, 60.0, 3220), (10800.0 / 8, 30.0, 285)]


@pytest.mark.parametrize("mtbf_s, write_s, want", WORKED)
def test_gives_the_worked_intervals(mtbf_s: float, write_s: float, want: int) -> None:
    assert round(cadence.interval_s(mtbf_s, write_s)) == pytest.approx(want, abs=1)


@pytest.mark.parametrize("mtbf_s, write_s", [(10800.0, 30.0), (600.0, 4.0), (50.0, 0.01)])
def test_no_other_interval_wastes_less(mtbf_s: float, write_s: float) -> None:
    best = cadence.interval_s(mtbf_s, write_s)
    least = cadence.waste(mtbf_s, write_s, best)
    assert least == pytest.approx(math.sqrt(2 * write_s / mtbf_s))
    assert all(cadence.waste(mtbf_s, write_s, best * factor) > least for factor in (0.5, 0.9, 1.1, 2.0))


def test_never_asks_for_less_than_the_time_a_write_takes() -> None:
    assert cadence.interval_s(mtbf_s=1.0, write_s=60.0) == 60.0


def test_rounds_down_to_a_step_and_never_to_none() -> None:
    assert cadence.steps(805.0, 2.0) == 402
    assert cadence.steps(1.0, 30.0) == 1


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_refuses_what_is_no_duration(bad: float) -> None:
    with pytest.raises(ValueError):
        cadence.interval_s(bad, 30.0)
    with pytest.raises(ValueError):
        cadence.interval_s(30.0, bad)
