"""A loop that accumulates gradients over several batches resumes exactly, wherever it was killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer, preempt
from tests.train import trials
from tests.train.forging import Forge

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


class Stop(Exception):
    """The training is killed here."""


def train(folder: str, stop_at: int | None = None, over: int = 4, **more: Any) -> bytes:
    """Weights of a training of 3 epochs of 10 batches, whose last window of an epoch is short."""
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    ckpt = Checkpointer(folder=folder, model=model, optimizer=optimizer, loader=loader, **more)
    for _ in ckpt.epochs(3):
        for i, (x, y) in enumerate(ckpt.batches(loader)):
            loss = torch.nn.functional.mse_loss(model(x), y) / over
            loss.backward()
            if (i + 1) % over == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
            ckpt.step(loss=loss)
            if ckpt.step_count == stop_at:
                raise Stop
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


def killed(folder: str, stop_at: int, **more: Any) -> bytes:
    with pytest.raises(Stop):
        train(folder, stop_at, **more)
    return train(folder, **more)


@pytest.mark.campaign
@pytest.mark.parametrize("every", [1, 3, 5])
def test_killed_at_any_batch_it_ends_with_the_same_weights(every: int) -> None:
    whole = train("whole", every_steps=1000)
    for stop_at in (every + 2, 15, 28):
        assert killed("f%d" % stop_at, stop_at, every_steps=every) == whole, stop_at


def test_a_due_save_waits_for_the_step_of_the_optimizer(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train("f", stop_at=20, every_steps=6)
    steps = [torch_zip.facts(str(path))["step"] for path in sorted((tmp_path / "f").glob("*.pt"))]
    assert set(steps) <= {4, 8, 10, 14, 18, 20} and max(steps) >= 18
    saved = torch_zip.read_zip(str(max((tmp_path / "f").glob("*.pt")))).tree["sojourn"]
    assert saved["gradients"] == {}


def test_no_more_than_the_cadence_is_at_stake_also_where_a_window_is_longer(tmp_path: Path) -> None:
    for stop_at in (6, 13, 28):
        with pytest.raises(Stop):
            train("f%d" % stop_at, stop_at, every_steps=3, over=8)
        newest = max((tmp_path / ("f%d" % stop_at)).glob("ckpt-*.pt"))
        assert stop_at - torch_zip.facts(str(newest))["step"] <= 3


def test_a_preemption_between_two_steps_of_the_optimizer_keeps_the_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train("whole", every_steps=1000)
    step: Callable[..., None] = Checkpointer.step

    def asked(self: Checkpointer, **metrics: Any) -> None:
        if self.step_count == 16:
            preempt.ask("a test")
        step(self, **metrics)

    monkeypatch.setattr(Checkpointer, "step", asked)
    with pytest.raises(SystemExit):
        train("f", every_steps=1000)
    monkeypatch.undo()
    os.chdir(tmp_path)
    preempt.forget()
    saved = torch_zip.read_zip(str(tmp_path / "f/ckpt-t000001-s00000017.pt")).tree["sojourn"]
    assert sorted(saved["gradients"]["model"]) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    assert train("f", every_steps=1000) == whole


def test_gradients_that_an_optimizer_used_are_not_kept(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ckpt = Checkpointer(model=model, optimizer=optimizer, every_steps=1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4)).sum().backward()
        optimizer.step()
        ckpt.step()
    saved = torch_zip.read_zip(str(max((tmp_path / "checkpoints").glob("*.pt")))).tree["sojourn"]
    assert saved["gradients"] == {}


def test_gradients_of_one_of_two_optimizers_that_wait_are_kept(tmp_path: Path) -> None:
    first, second = torch.nn.Linear(4, 1), torch.nn.Linear(1, 1)
    one, two = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second))
    ckpt = Checkpointer(first=first, second=second, one=one, two=two, every_steps=2)
    for _ in range(2):
        second(first(torch.ones(4))).sum().backward()
        one.step()
        one.zero_grad()
        ckpt.step()
    saved = torch_zip.read_zip(str(max((tmp_path / "checkpoints").glob("*.pt")))).tree["sojourn"]
    assert sorted(saved["gradients"]) == ["second"]
    second.zero_grad()
    second.weight.grad = None
    Checkpointer(first=first, second=second, one=one, two=two)
    assert second.weight.grad is not None and bool(second.weight.grad.any())


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["accumulated", pytest.param("accelerate", marks=pytest.mark.adapters)])
def test_struck_at_random_moments_it_ends_with_the_same_bytes(kind: str, tmp_path: Path) -> None:
    with Forge(*trials.KINDS[kind].modules) as forge:
        verdict = trials.Trials(kind, forge, tmp_path).play(1, kills=2, terms=1)
    assert not verdict.breaches, trials.stories([verdict])
