"""What a loop keeps beside its items: means of an epoch and values of its own, right after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer, preempt
from sojourn.train.run_env import BadUse
from sojourn.train.state.kept import Means


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


LOSSES = [[0.9, 0.3, 0.1, 0.7, 1e-17, 0.2], [0.5, 0.4, 0.2, 0.1, 0.05, 0.7]]


def test_a_mean_over_an_epoch_is_the_same_to_the_last_bit_wherever_it_was_killed(tmp_path: Path) -> None:
    def train(folder: str, stop_at: int | None) -> list[float]:
        ckpt, means = Checkpointer(folder=folder, state={}, every_steps=1, best=("loss", "min")), []
        for epoch in ckpt.epochs(2):
            for index in ckpt.batches(range(6)):
                ckpt.step(loss=LOSSES[epoch][index])
                if ckpt.step_count == stop_at:
                    return means
            means.append(ckpt.mean("loss"))
            ckpt.end_epoch(loss=ckpt.mean("loss"))
        return means

    whole = train("whole", None)
    best = torch_zip.facts(str(tmp_path / "whole/best.pt"))["best"]
    assert [round(mean, 6) for mean in whole] == [0.366667, 0.325]
    for stop_at in (2, 5, 6, 9):
        assert train(str(stop_at), stop_at) + train(str(stop_at), None) == whole, stop_at
        assert torch_zip.facts(str(tmp_path / str(stop_at) / "best.pt"))["best"] == best


def test_values_that_the_loop_keeps_go_on_where_they_stood() -> None:
    def train(folder: str, stop_at: int | None) -> tuple[list[Any], int]:
        ckpt = Checkpointer(folder=folder, state={}, every_steps=1)
        over_all, out = ckpt.keep(longest=0, lines=[]), []
        for epoch in ckpt.epochs(2):
            kept = ckpt.keep(total=0.0)
            for index in ckpt.batches(range(6)):
                kept.total += LOSSES[epoch][index]
                over_all.longest = max(over_all.longest, index * 3)
                ckpt.step()
                if ckpt.step_count == stop_at:
                    return out, 0
            over_all.lines.append(kept.total)
        return over_all.lines, over_all.longest

    whole = train("whole", None)
    assert len(whole[0]) == 2 and whole[1] == 15
    for stop_at in (2, 6, 9):
        train(str(stop_at), stop_at)
        assert train(str(stop_at), None) == whole, stop_at
    assert train("whole", None) == whole, "started again when it was over"


def gathering(folder: str, stop_at: int | None) -> None:
    ckpt = Checkpointer(folder=folder, state={}, every_steps=1, best=("loss", "min"))
    for epoch in ckpt.epochs(2):
        total, count = 0.0, 0
        for index in ckpt.batches(range(6)):
            total += LOSSES[epoch][index]
            count += 1
            ckpt.step()
            if ckpt.step_count == stop_at:
                return
        mean = total / count
        ckpt.end_epoch(loss=mean)


def test_a_metric_of_best_that_began_in_the_middle_of_an_epoch_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    gathering("f", 3)
    assert "began in the middle" not in capsys.readouterr().err
    gathering("f", None)
    said = capsys.readouterr().err
    assert "loss, handed to best=, comes from `count`, which began in the middle of the epoch" in said
    assert "use ckpt.mean('loss'), or keep it in ckpt.keep(count=...)" in said


def test_a_metric_of_best_that_is_computed_behind_the_epoch_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for stop_at in (3, None):
        ckpt = Checkpointer(state={}, every_steps=1, best=("loss", "min"))
        for epoch in ckpt.epochs(2):
            for _ in ckpt.batches(range(6)):
                ckpt.step()
                if ckpt.step_count == stop_at:
                    break
            else:
                ckpt.end_epoch(loss=sum(LOSSES[epoch]) / 6)
                continue
            break
    assert "began in the middle" not in capsys.readouterr().err


def test_a_mean_of_what_no_step_was_given_is_refused_in_words() -> None:
    ckpt = Checkpointer(state={})
    ckpt.step(loss=1.0)
    with pytest.raises(BadUse, match="was given accuracy, of which to take the mean; given: loss"):
        ckpt.mean("accuracy")


@pytest.mark.torch
def test_a_mean_of_tensors_is_that_of_their_numbers() -> None:
    torch = pytest.importorskip("torch")
    means, plain = Means(), Means()
    for value in (0.1, 0.7, 3e-9):
        means.add({"loss": torch.tensor(value), "logits": torch.zeros(3)})
        plain.add({"loss": float(torch.tensor(value))})
    assert means.as_saved() == plain.as_saved()
