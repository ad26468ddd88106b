"""Loaders of every day: persistent workers, iterable data sets, prefetching, generators inside a data set."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Iterator

import pytest

from sojourn.train import Checkpointer, preempt

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
BATCHES, EPOCHS = 6, 2


class Stop(Exception):
    """The training is killed here."""


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


class Noisy(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Draws from all three libraries, as augmentations do."""

    def __len__(self) -> int:
        return 4 * BATCHES

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, random.random(), float(np.random.rand()), float(torch.rand(()))])


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    """Each worker has every other sample, and one of them fewer than the other."""

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        for index in range(info.id, 4 * BATCHES - 3, info.num_workers):
            yield torch.tensor([index, random.random(), float(np.random.rand()), float(torch.rand(()))])


class Augmented(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Draws from generators of its own, as albumentations does."""

    def __init__(self) -> None:
        self.transforms = [{"rng": np.random.default_rng(3)}, {"rng": random.Random(4)}]

    def __len__(self) -> int:
        return 4 * BATCHES

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, self.transforms[0]["rng"].random(), self.transforms[1]["rng"].random()])


LOADERS = {
    "persistent": lambda: {
        "dataset": Noisy(),
        "shuffle": True,
        "num_workers": 2,
        "persistent_workers": True,
        "generator": torch.Generator().manual_seed(5),
    },
    "persistent, init": lambda: {
        "dataset": Noisy(),
        "num_workers": 1,
        "persistent_workers": True,
        "worker_init_fn": lambda worker: np.random.seed(worker),
    },
    "persistent stream": lambda: {
        "dataset": Stream(),
        "num_workers": 2,
        "persistent_workers": True,
        "prefetch_factor": 4,
        "drop_last": True,
    },
    "own generators": lambda: {"dataset": Augmented(), "shuffle": True},
}


def train(folder: str, stop_at: int | None = None, epochs: int = EPOCHS, **more: Any) -> list[Any]:
    """Every batch seen, and what dropout would draw beside it."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    loader = torch.utils.data.DataLoader(batch_size=4, **more)
    log: dict[str, list[Any]] = {"seen": []}
    ckpt = Checkpointer(folder=folder, log=log, loader=loader, every_steps=1)
    for _ in ckpt.epochs(epochs):
        for batch in ckpt.batches():
            log["seen"].append((batch.tolist(), float(torch.rand(()))))
            ckpt.step()
            if ckpt.step_count == stop_at:
                raise Stop
        ckpt.end_epoch()
    return log["seen"]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("kind", LOADERS)
def test_a_training_stopped_anywhere_sees_the_same_batches(kind: str) -> None:
    whole = train("whole", **LOADERS[kind]())
    per_epoch = len(whole) // EPOCHS
    assert per_epoch >= BATCHES - 2 and whole[0] != whole[per_epoch]
    with pytest.raises(Stop):
        train("f", per_epoch + 2, **LOADERS[kind]())
    assert train("f", **LOADERS[kind]()) == whole


def test_persistent_workers_live_through_all_passes_and_draw_what_new_ones_would() -> None:
    want = train("new", epochs=3, **{**LOADERS["persistent"](), "persistent_workers": False})
    pids = set()

    class Watched(torch.utils.data.DataLoader):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            found = super().__iter__()
            pids.update(worker.pid for worker in found._workers)
            return found

    loader, plain = Watched, torch.utils.data.DataLoader
    try:
        torch.utils.data.DataLoader = loader
        assert train("old", epochs=3, **LOADERS["persistent"]()) == want
    finally:
        torch.utils.data.DataLoader = plain
    assert len(pids) == 2


@pytest.mark.parametrize(
    "more, word",
    [
        ({"dataset": Augmented(), "num_workers": 1, "persistent_workers": True}, "set persistent_workers=False"),
        ({"dataset": Noisy(), "num_workers": 1, "in_order": False}, "in_order=False"),
    ],
)
def test_a_loader_that_cannot_be_resumed_exactly_is_named_at_its_first_batch(
    more: Any, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Stop):
        train("f", 1, **more)
    assert capfd.readouterr().err.count(word) == 1


def test_a_data_sets_own_generators_are_missed_where_the_loader_is_not_given(capfd: pytest.CaptureFixture[str]) -> None:
    ckpt = Checkpointer(state={}, every_steps=1)
    next(ckpt.batches(torch.utils.data.DataLoader(Augmented())))
    assert "give Checkpointer(loader=...)" in capfd.readouterr().err


class Bucketed(torch.utils.data.Sampler):  # type: ignore[misc, name-defined]
    """Batches of similar length, each shuffled when its turn has come, or all at the start."""

    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late

    def __len__(self) -> int:
        return BATCHES

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(BATCHES).tolist()
        early = [] if self.is_late else [torch.randperm(4).tolist() for _ in order]
        for bucket in order:
            yield [4 * bucket + one for one in (torch.randperm(4).tolist() if self.is_late else early[bucket])]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_sampler_that_draws_in_the_middle_of_a_pass_is_named(
    is_late: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    loader = torch.utils.data.DataLoader(Noisy(), batch_sampler=Bucketed(is_late))
    ckpt = Checkpointer(state={}, loader=loader, every_steps=1)
    assert len(list(ckpt.batches())) == BATCHES
    assert capfd.readouterr().err.count("the sampler Bucketed draws") == is_late
