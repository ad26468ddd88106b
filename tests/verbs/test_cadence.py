"""`cadence`: Young's interval, in whole steps where a step is given."""

from __future__ import annotations

import json
import math

import pytest

from sojourn.cli.main import main
from sojourn.verbs.explain.cadence import BadCadence, cadence


def test_it_is_youngs_interval() -> None:
    answer = cadence(21600, 40)
    assert math.isclose(answer.interval_s, math.sqrt(2 * 21600 * 40))
    assert math.isclose(answer.waste, math.sqrt(2 * 40 / 21600)) and answer.exit_status == 0


def test_it_is_rounded_down_to_whole_steps() -> None:
    answer = cadence(86400, 2, 0.35)
    assert (answer.steps, answer.interval_s) == (1679, pytest.approx(587.65))


def test_no_neighbour_of_the_interval_loses_less() -> None:
    answer = cadence(3600, 5)
    for factor in (0.5, 0.9, 1.1, 2.0):
        other_s = answer.interval_s * factor
        assert 5 / other_s + other_s / 7200 > answer.waste


def test_a_write_as_long_as_the_time_it_guards_is_a_warning() -> None:
    assert cadence(60, 30).exit_status == 10


@pytest.mark.parametrize("mtbf_s, write_s", [(0, 1), (1, 0)])
def test_nothing_is_no_time(mtbf_s: float, write_s: float) -> None:
    with pytest.raises(BadCadence):
        cadence(mtbf_s, write_s)


def test_the_command_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cadence", "--mtbf", "1d", "--write", "2s", "--step", "350ms", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["steps"]) == ("sojourn/cadence/v1", 1679)
    assert main(["cadence", "--mtbf", "6h", "--write", "40s"]) == 0
    assert "every" in capsys.readouterr().out
    assert main(["cadence", "--mtbf", "6h", "--write", "0"]) == 2
