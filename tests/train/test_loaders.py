"""Starting a pass over the data in its middle, for loaders of every kind; random numbers put back exactly."""

from __future__ import annotations

import random
from typing import Any, Iterator

import numpy as np
import pytest

from sojourn.train import Batches
from sojourn.train.state import rng
from sojourn.train.state.loaders import PositionLost, Reader


class Drawing:
    """A loader that can be read again and again, and shuffles with the process-wide numpy generator."""

    def __iter__(self) -> Iterator[Any]:
        for index in np.random.permutation(10):
            yield index, np.random.random()


def through(loader: Any, skip: int) -> list[str]:
    np.random.seed(4)
    reader = Reader(loader)
    reader.advance(skip)
    return [repr(item) for item in reader]


SEQUENCES = [
    list("abcdef"),
    tuple("abc"),
    range(7),
    np.arange(12).reshape(6, 2),
    Batches(np.arange(9), size=2),
    Drawing(),
]


@pytest.mark.parametrize("loader", SEQUENCES, ids=lambda value: type(value).__name__)
def test_a_pass_started_in_its_middle_is_the_rest_of_the_whole(loader: Any) -> None:
    whole = through(loader, 0)
    assert whole
    for skip in range(len(whole) + 1):
        assert through(loader, skip) == whole[skip:]


def test_a_loader_that_ends_too_early_is_no_place_to_go_on_from() -> None:
    with pytest.raises(PositionLost, match="10 batches come from the loader where 11 were read before"):
        Reader(Drawing()).advance(11)


@pytest.mark.parametrize("drop_last, want", [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_cover_every_row_once_in_a_new_order_each_pass(drop_last: bool, want: list[int]) -> None:
    x, y = np.arange(10), np.arange(10) * 10
    data = Batches(x, y, size=4, rng=np.random.default_rng(0), drop_last=drop_last)
    first, second = list(data), list(data)
    assert len(data) == len(want) and [len(a) for a, _ in first] == want
    assert all((a * 10 == b).all() for a, b in first + second)
    seen = np.concatenate([a for a, _ in first]).tolist()
    assert len(set(seen)) == sum(want) and seen != np.concatenate([a for a, _ in second]).tolist()


def test_batches_of_unequal_arrays_are_refused() -> None:
    for arrays, size in (((np.arange(3), np.arange(4)), 1), ((np.arange(3),), 0), ((), 1)):
        with pytest.raises(ValueError):
            Batches(*arrays, size=size)


GENERATORS = [
    random.Random(1), np.random.default_rng(2), np.random.Generator(np.random.MT19937(3)), np.random.RandomState(4),
    np.random.Generator(np.random.SFC64(5)), np.random.Generator(np.random.Philox(6)),
]  # fmt: skip


def draw(source: Any) -> str:
    name = "gauss" if hasattr(source, "gauss") else "normal"
    values = [getattr(source, name)(0, 1) for _ in range(3)]
    if isinstance(source, np.random.Generator):
        values.append(source.integers(0, 9, dtype=np.uint32))  # leaves half a word behind
    return repr(values)


@pytest.mark.parametrize("source", GENERATORS, ids=lambda s: type(getattr(s, "bit_generator", s)).__name__)
def test_every_kind_of_generator_goes_on_where_it_stood(source: Any) -> None:
    assert rng.is_generator(source)
    draw(source)
    saved = rng.capture({"g": source}, [source])
    want = [draw(source), draw(random), draw(np.random)]
    draw(source)
    random.seed(77)
    assert rng.restore(saved, {"g": source}, [source]) == []
    assert [draw(source), draw(random), draw(np.random)] == want


@pytest.mark.parametrize("value", [random.SystemRandom(), random, np.random, 3, None, "seed"])
def test_what_cannot_be_put_back_is_no_generator(value: Any) -> None:
    assert not rng.is_generator(value)
