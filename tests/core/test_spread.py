"""Placement, costs, and the sweep that refuses to be two in one place."""

import itertools
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sojourn.core.spread import Lanes, Sibling, Wanted, expected, makespan, place, speeds
from sojourn.core.sweep import Cell, Collision, Sweep

COSTS = st.lists(st.integers(1, 30), min_size=1, max_size=7)


def best(costs: list[int], slots: list[float]) -> float:
    """The least makespan there is, by trying every assignment; `slots`: their speeds."""
    found = float("inf")
    for chosen in itertools.product(range(len(slots)), repeat=len(costs)):
        ends = [0.0] * len(slots)
        for cost, slot in zip(costs, chosen, strict=True):
            ends[slot] += cost / slots[slot]
        found = min(found, max(ends))
    return found


def placed(costs: list[int], boxes: list[Lanes]) -> float:
    named = {f"c{n}": float(cost) for n, cost in enumerate(costs)}
    return makespan(named, place(named, boxes), boxes)


@settings(max_examples=60, deadline=None)
@given(COSTS, st.lists(st.integers(1, 2), min_size=1, max_size=2))
@example([5, 5, 4, 4, 3, 3, 3], [1, 2])  # the classic worst case of three slots: 11 instead of 9
def test_on_equal_slots_the_end_is_at_most_four_thirds_of_the_best(costs: list[int], slots: list[int]) -> None:
    boxes = [Lanes(f"b{n}", count) for n, count in enumerate(slots)]
    count = sum(slots)
    bound = (4 / 3 - 1 / (3 * count)) * best(costs, [1.0] * count)
    assert placed(costs, boxes) <= bound * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(COSTS, st.lists(st.sampled_from([1.0, 1.5, 2.0, 3.7]), min_size=1, max_size=3))
def test_on_boxes_of_different_speed_the_end_is_at_most_1_58_of_the_best(costs: list[int], speed: list[float]) -> None:
    boxes = [Lanes(f"b{n}", 1, fast) for n, fast in enumerate(speed)]
    assert placed(costs, boxes) <= 1.578 * best(costs, speed) * (1 + 1e-9)


def test_the_longest_cell_comes_first_and_equal_ones_keep_their_order() -> None:
    costs = {"a": 1.0, "b": 20.0, "c": 1.0, "d": 50.0}
    assert list(place(costs, [Lanes("x")])) == ["d", "b", "a", "c"]


def test_work_that_a_box_has_already_counts() -> None:
    assert place({"a": 1.0}, [Lanes("busy", load=5.0), Lanes("idle")]) == {"a": "idle"}


def test_of_equal_boxes_the_earlier_candidate_is_taken() -> None:
    assert place({"a": 1.0}, [Lanes("first"), Lanes("second")]) == {"a": "first"}


def test_ten_thousand_cells_are_placed_at_once() -> None:
    costs = {f"c{n}": float(n % 97 + 1) for n in range(10_000)}
    boxes = [Lanes(f"b{n}", 2, 1.0 + n / 50) for n in range(50)]
    began = time.process_time()
    assert len(place(costs, boxes)) == 10_000
    assert time.process_time() - began < 50  # ~0.3 s; a bound on a loop that is quadratic


def test_what_finished_siblings_took_beats_stated_epochs_and_the_nearest_one_counts() -> None:
    cells = {"det": Wanted({"task": "det", "lr": "1"}, 50), "seg": Wanted({"task": "seg", "lr": "1"})}
    assert expected(cells, []) == {"det": 50.0, "seg": 1.0}
    done = [Sibling({"task": "det", "lr": "2"}, 100.0, 10), Sibling({"task": "seg", "lr": "2"}, 30.0)]
    assert expected(cells, done) == {"det": 500.0, "seg": 30.0}
    assert set(expected({"a": Wanted(), "b": Wanted()}, []).values()) == {1.0}


def test_the_speed_of_a_box_is_what_its_cells_took_against_what_was_expected() -> None:
    done = [("slow", 10.0, 20.0), ("fast", 10.0, 5.0), ("fast", 20.0, 10.0), ("odd", 0.0, 1.0)]
    assert speeds(done) == {"slow": 1.0, "fast": 4.0}


@pytest.mark.parametrize(
    ("one", "other"),
    [("/b/runs/x", "/b/runs/x"), ("/b/runs/x", "/b/runs/x/attempts"), ("/b/runs/x/deep/er", "/b/runs/x/")],
)
def test_equal_and_nested_roots_are_refused(one: str, other: str) -> None:
    between = Cell("m", "box", "/b/runs/x-1")  # sorts between the two as text, and holds neither
    with pytest.raises(Collision):
        Sweep("s", (Cell("a", "box", one), between, Cell("b", "box", other)))
    assert Sweep("s", (Cell("a", "box", one), between, Cell("b", "another", other))).cells


def test_equal_names_are_refused_wherever_they_are() -> None:
    with pytest.raises(Collision, match="one name"):
        Sweep("s", (Cell("a", "one", "/r/a"), Cell("a", "two", "/r/a")))


def test_roots_that_only_begin_alike_are_no_collision() -> None:
    assert len(Sweep("s", (Cell("a", "b", "/r/x"), Cell("c", "b", "/r/x1"), Cell("d", "b", "/r/x-1"))).cells) == 3


def test_nine_cells_on_three_boxes_of_different_speed_end_near_the_best_there_is() -> None:
    costs = [40, 40, 40, 30, 30, 30, 20, 20, 20]
    boxes = [Lanes("slow"), Lanes("twice", speed=2.0), Lanes("four", speed=4.0)]
    assert placed(costs, boxes) <= 1.3 * best(costs, [1.0, 2.0, 4.0])
