"""Spread over seeds, directions, and one change at a time."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.outcome import (
    Group,
    Outcome,
    best,
    comparisons,
    direction,
    grouped,
    is_seed,
    short,
    spread,
    with_plan,
)


def cell(run: str, metrics: dict[str, float], **values: str) -> Outcome:
    return Outcome(run, values, metrics)


CELLS = [
    cell("a0", {"acc": 0.5, "loss": 1.0}, lr="0.1", wd="0", seed="0"),
    cell("a1", {"acc": 0.7, "loss": 0.8}, lr="0.1", wd="0", seed="1"),
    cell("b0", {"acc": 0.8, "loss": 0.4}, lr="0.01", wd="0", seed="0"),
    cell("b1", {"acc": 0.9, "loss": 0.9}, lr="0.01", wd="0", seed="1"),
    cell("c0", {"acc": 0.6}, lr="0.01", wd="1", seed="0"),
]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_spread_is_the_one_of_a_sample(numbers: list[float]) -> None:
    found = spread(numbers)
    assert found.mean == pytest.approx(statistics.fmean(numbers), abs=1e-6)
    assert found.sd == pytest.approx(statistics.stdev(numbers), rel=1e-6, abs=1e-6)
    assert (found.n, found.least, found.most) == (len(numbers), min(numbers), max(numbers))


def test_equal_numbers_have_none_at_all() -> None:
    assert spread([0.1] * 3).mean == 0.1 and spread([0.1] * 3).sd == 0.0


def test_one_seed_has_no_spread() -> None:
    assert spread([3.0]).sd is None


def test_seeds_repeat_a_group_and_the_rest_makes_it() -> None:
    groups = grouped(CELLS, ["seed"])
    assert [group.cells for group in groups] == [("a0", "a1"), ("b0", "b1"), ("c0",)]
    assert groups[0].values == {"lr": "0.1", "wd": "0"}
    assert groups[0].spreads["acc"].mean == pytest.approx(0.6)
    assert "loss" not in groups[2].spreads


def planned(*missing: str) -> tuple[Group, ...]:
    """Groups a, b and c; the plan has one seed of c, and two of the others."""
    return with_plan(
        grouped([one for one in CELLS if one.run not in missing], ["seed"]),
        {one.run: one.values for one in CELLS},
        is_seed,
    )


def test_a_group_that_lost_a_seed_is_not_the_best() -> None:
    assert best(planned(), "acc", "max") == (1,)
    assert best(planned("b0"), "acc", "max") == (0, 2) and short(planned("b0"), "acc") == (1,)


def test_a_group_planned_with_fewer_seeds_is_whole() -> None:
    assert short(planned(), "acc") == () and best(planned(), "acc", "min") == (0, 2)


def test_groups_that_all_lost_a_seed_are_ranked() -> None:
    assert best(planned("a1", "b1"), "acc", "max") == (1,)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("accuracy", "max"), ("val_acc", "max"), ("eval.f1", "max"), ("top5", "max"), ("mIoU", "max"),
        ("loss", "min"), ("val/loss", "min"), ("eval.wer", "min"), ("perplexity", "min"),
        ("step", ""), ("lossless", ""), ("loss_score", ""), ("gamma", ""),
    ],
)  # fmt: skip
def test_a_name_tells_a_direction_or_none(name: str, way: str) -> None:
    assert direction(name) == way


@pytest.mark.parametrize(("name", "so"), [("seed", True), ("SEED", True), ("data_seed", True), ("seeded", False),
                                          ("random_state", True), ("lr", False), ("repeat", True)])  # fmt: skip
def test_what_only_repeats_a_cell_is_known_by_its_name(name: str, so: bool) -> None:
    assert is_seed(name) is so


def test_the_best_group_is_by_direction_and_there_is_none_without() -> None:
    groups = grouped(CELLS, ["seed"])
    assert best(groups, "acc", "max") == (1,) and best(groups, "loss", "min") == (1,)
    assert best(groups, "acc", "") == () and best(groups, "nothing", "max") == ()
    assert best(grouped([cell("x", {"a": 1.0}, k="1"), cell("y", {"a": 1.0}, k="2")], []), "a", "max") == (0, 1)


def test_only_groups_that_differ_in_one_variable_are_compared() -> None:
    found = comparisons(grouped(CELLS, ["seed"]), {"acc": "max", "loss": "min"})
    assert [(one.variable, one.before, one.after, one.held, one.groups) for one in found] == [
        ("lr", "0.1", "0.01", {"wd": "0"}, (0, 1)),
        ("wd", "0", "1", {"lr": "0.01"}, (1, 2)),
    ]
    acc, loss = found[0].metrics["acc"], found[0].metrics["loss"]
    assert (acc.is_better, acc.is_apart) == (True, True) and (loss.is_better, loss.is_apart) == (True, False)
    assert found[1].metrics["acc"].is_apart is None and "loss" not in found[1].metrics
