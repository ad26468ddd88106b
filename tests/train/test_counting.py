"""The number that a loop gives its batches goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import pytest

from sojourn.train import Checkpointer, preempt
from sojourn.train.state import counting


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


class Bar:
    """A progress bar, as tqdm's."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        yield from self.iterable


WAYS: dict[str, Callable[[Checkpointer], Iterable[tuple[int, str]]]] = {
    "bare": lambda ckpt: enumerate(ckpt.batches("a b c d e f".split())),
    "from 1": lambda ckpt: enumerate(ckpt.batches("a b c d e f".split()), 1),
    "within a bar": lambda ckpt: Bar(enumerate(ckpt.batches("a b c d e f".split()))),
    "of a bar": lambda ckpt: enumerate(Bar(ckpt.batches("a b c d e f".split()))),
    "of all steps": lambda ckpt: enumerate(ckpt.batches("a b c d e f".split()), ckpt.step_count),
    "by the Checkpointer": lambda ckpt: ckpt.enumerate("a b c d e f".split()),
}


def seen(way: str, folder: str, stop_at: int | None) -> list[tuple[int, str]]:
    ckpt, out = Checkpointer(folder=folder, state={}, every_steps=1), []
    for _ in ckpt.epochs(2):
        for i, batch in WAYS[way](ckpt):
            out.append((i, batch))
            ckpt.step()
            if ckpt.step_count == stop_at:
                return out
    return out


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("way", WAYS)
def test_counts_on_where_it_was_killed(way: str) -> None:
    whole = seen(way, "whole", None)
    assert len({i for i, _ in whole}) >= 6
    for stop_at in (1, 6, 9):
        assert seen(way, str(stop_at), stop_at) + seen(way, str(stop_at), None) == whole


def test_where_the_count_cannot_be_set_the_way_to_write_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen("bare", "f", 4)
    monkeypatch.setattr(counting, "_is_as_known", lambda: False)
    assert seen("bare", "f", None)[0] == (0, "e")
    assert "for i, batch in ckpt.enumerate(loader)" in capsys.readouterr().err


def test_a_loop_that_counts_nothing_is_left_alone() -> None:
    other = enumerate(iter("xyz"))
    assert next(other) == (0, "x")
    for stop_at in (4, None):
        ckpt = Checkpointer(state={}, every_steps=1)
        for _ in ckpt.batches(range(6)):
            ckpt.step()
            if ckpt.step_count == stop_at:
                break
    assert next(other) == (1, "y")
