"""The benchmark runner reads fairly, and a broken promise is seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import measured, shown, table
from benchmarks.protocol import Row, seconds


def bench(log: list[str], values: dict[str, list[float]]) -> ModuleType:
    """A benchmark whose readings are given beforehand; it writes down the order in which it was read."""
    module = ModuleType("bench_given")

    @contextmanager
    def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
        def reader(name: str) -> Callable[[], float]:
            def read() -> float:
                log.append(name)
                return values[name].pop(0)

            return read

        yield {name: reader(name) for name in values}
        log.append("ended")

    module.TITLE, module.ROUNDS, module.prepare = "given", 3, prepare
    module.rows = lambda medians: [Row(name, value, "s") for name, value in medians.items()]
    return module


def test_measures_are_read_in_turn_and_the_first_round_is_thrown_away() -> None:
    log: list[str] = []
    rows, rounds = measured(bench(log, {"a": [99, 1, 2, 9], "b": [99, 5, 4, 4]}), "given")
    assert log == ["b", "a", "a", "b", "b", "a", "a", "b", "ended"]
    assert rounds == 3
    assert [(row.what, row.value) for row in rows] == [("a", 2), ("b", 4)]


@pytest.mark.parametrize(("value", "verdict"), [(1, "good"), (3, "kept"), (5, "kept"), (5.1, "BROKEN")])
def test_a_figure_is_judged_by_promise_and_goal(value: float, verdict: str) -> None:
    row = Row("x", value, "x", limit=5, goal=2)
    assert row.verdict == verdict
    assert row.is_kept is (verdict != "BROKEN")
    assert verdict in "\n".join(table([row], 9))


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(Exception, match="non-zero exit status 1"):
        seconds(["sh", "-c", "exit 1"])


def test_figures_keep_three_digits_that_mean_something() -> None:
    assert [shown(0.01234, "s"), shown(12.34, "MiB"), shown(1234.5, "x")] == ["12.3 ms", "12.3 MiB", "1234 x"]
