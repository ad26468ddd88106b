"""What of PyTorch the Checkpointer keeps, and what it refuses in clear words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.pickle import Unsaveable
from sojourn.train import Checkpointer, ResumableSampler, preempt
from sojourn.train.saving import arrays
from sojourn.train.state import state
from sojourn.train.state.loaders import PositionLost, Reader
from sojourn.train.state.state import OtherState

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


def keep_and_load(**items: Any) -> Any:
    ckpt = Checkpointer(**items)
    assert ckpt.save()
    return torch.load(next(Path("checkpoints").glob("ckpt-*.pt")), weights_only=True)


def test_torch_load_reads_a_checkpoint_and_finds_the_items_by_name() -> None:
    model = torch.nn.Linear(3, 2)
    loaded = keep_and_load(model=model, state={"epochs": [1, 2]})
    fresh = torch.nn.Linear(3, 2)
    fresh.load_state_dict(loaded["model"])
    assert torch.equal(fresh.weight, model.weight) and loaded["state"] == {"epochs": [1, 2]}
    assert loaded["sojourn"]["step"] == 0


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn", "bool", "complex64", "uint16"])
def test_tensors_of_every_dtype_come_back_in_place(dtype: str) -> None:
    kind = getattr(torch, dtype)
    value = torch.arange(24).reshape(4, 6).to(kind)
    view, want = value.t()[1:], value.clone()
    Checkpointer(x=value, box={"view": view}).save()
    value.zero_()
    Checkpointer(x=value, box={"view": view})
    assert torch.equal(value.view(torch.uint8), want.view(torch.uint8))


def test_tied_weights_stay_tied_and_take_their_bytes_once() -> None:
    shared = torch.nn.Linear(64, 64, bias=False)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), torch.nn.Linear(64, 64, bias=False))
    model[2].weight = shared.weight
    loaded = keep_and_load(model=model)["model"]
    assert loaded["0.weight"].data_ptr() == loaded["2.weight"].data_ptr()
    assert next(Path("checkpoints").glob("ckpt-*.pt")).stat().st_size < 2 * 64 * 64 * 4


def test_parameters_in_a_dict_are_restored_in_place() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    Checkpointer(box={"w": weight, "device": torch.device("cpu"), "dtype": torch.bfloat16, "size": weight.shape}).save()
    with torch.no_grad():
        weight.zero_()
    box: dict[str, Any] = {"w": weight}
    Checkpointer(box=box)
    assert box["w"] is weight and weight.tolist() == [1, 1, 1]
    assert (box["device"], box["dtype"], box["size"]) == (torch.device("cpu"), torch.bfloat16, (3,))


def mapped_here() -> list[str]:
    """Files of this test's own folder that are still mapped: another test's traceback may hold its own a while."""
    here = str(Path.cwd())
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if here in line]


def test_arrays_that_are_there_take_the_bytes_straight_from_the_file() -> None:
    """And not by way of a second copy of the state in memory; what has no place yet gets memory of its own."""
    box: dict[str, Any] = {"a": torch.ones(3 << 20), "more": [torch.ones(3 << 20)]}
    Checkpointer(box=box).save()
    tree = torch_zip.read_zip(str(next(Path("checkpoints").glob("ckpt-*.pt")))).tree["box"]
    assert state._takes_all(box, arrays.thaw(tree, share=True))
    for other in ({"a": box["a"], "more": []}, {"a": box["a"]}, {"a": torch.ones(3), "more": box["more"]}):
        assert not state._takes_all(other, arrays.thaw(tree, share=True))
    del tree
    fresh: dict[str, Any] = {"a": torch.zeros(3 << 20)}
    Checkpointer(box=fresh).step()
    assert fresh["a"].sum() == fresh["more"][0].sum() == 3 << 20
    assert not mapped_here()


def test_an_optimizers_state_does_not_live_in_the_file() -> None:
    """The file may be pruned, and its map with it would stay on the disk for as long as training lasts."""
    weight = torch.nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    Checkpointer(weight=weight, optimizer=optimizer).save()
    ckpt = Checkpointer(weight=weight, optimizer=optimizer)
    ckpt.step()
    for path in Path("checkpoints").glob("*"):
        path.unlink()
    assert not mapped_here()


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(3).to_sparse(),
        torch.zeros(3, device="meta"),
        torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.qint8),
    ],
)
def test_tensors_that_cannot_be_kept_are_named(value: Any) -> None:
    with pytest.raises(Unsaveable, match="box.odd cannot be saved"):
        Checkpointer(box={"odd": value}).save()


def test_a_model_of_another_shape_is_refused_by_its_own_words() -> None:
    Checkpointer(model=torch.nn.Linear(3, 2)).save()
    with pytest.raises(RuntimeError, match="size mismatch"):
        Checkpointer(model=torch.nn.Linear(3, 4))
    with pytest.raises(OtherState):
        Checkpointer(net=torch.nn.Linear(3, 2))


def test_the_global_generator_goes_on_where_it_stood() -> None:
    torch.manual_seed(3)
    torch.rand(5)
    Checkpointer(state={}).save()
    want = torch.rand(4)
    torch.manual_seed(99)
    Checkpointer(state={})
    assert torch.equal(torch.rand(4), want)


class Counting(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index


@pytest.mark.parametrize("batch_size", [4, None])
def test_skipping_in_a_dataloader_loads_nothing_and_keeps_its_order(batch_size: int | None) -> None:
    data = Counting()
    loader = torch.utils.data.DataLoader(data, batch_size=batch_size, shuffle=True)
    torch.manual_seed(1)
    whole = [str(batch) for batch in loader]
    data.read.clear()
    torch.manual_seed(1)
    reader = Reader(loader)
    reader.advance(3)
    assert data.read == []
    assert [str(batch) for batch in reader] == whole[3:]
    torch.manual_seed(1)
    assert [str(batch) for batch in loader] == whole  # and the loader itself is as it was


def test_an_order_that_differs_after_the_restart_is_noticed() -> None:
    class Fickle(torch.utils.data.Sampler):  # type: ignore[misc, name-defined]
        calls = 0

        def __len__(self) -> int:
            return 20

        def __iter__(self) -> Iterator[int]:
            Fickle.calls += 1
            return iter([(index * 7 + Fickle.calls) % 20 for index in range(20)])

    loader = torch.utils.data.DataLoader(Counting(), batch_size=2, sampler=Fickle())
    ckpt = Checkpointer(state={}, every_steps=1)
    for _ in ckpt.batches(loader):
        ckpt.step()
        if ckpt.step_count == 3:
            break
    with pytest.raises(PositionLost, match="order differs"):
        list(Checkpointer(state={}).batches(loader))


def test_a_dataloaders_own_generator_must_be_told() -> None:
    generator = torch.Generator().manual_seed(1)
    loader = torch.utils.data.DataLoader(Counting(), batch_size=4, shuffle=True, generator=generator)
    with pytest.raises(PositionLost, match="a generator of its own"):
        list(Checkpointer(state={}).batches(loader))
    assert len(list(Checkpointer(state={}, loader=loader).batches())) == 5


@pytest.mark.parametrize("kind", ["sampler", "batch_sampler", "drop_last"])
def test_behind_a_resumable_sampler_workers_load_nothing_to_find_the_place(kind: str) -> None:
    data = torch.utils.data
    source = list(range(22))
    inner = data.RandomSampler(source)
    if kind == "batch_sampler":
        more: dict[str, Any] = {"batch_sampler": ResumableSampler(data.BatchSampler(inner, 4, False))}
    else:
        more = {"sampler": ResumableSampler(inner), "batch_size": 4, "drop_last": kind == "drop_last"}
    loader = data.DataLoader(source, num_workers=1, **more)
    torch.manual_seed(1)
    whole = [batch.tolist() for batch in loader]
    assert len(whole) == (5 if kind == "drop_last" else 6)
    for skip in (0, 3, len(whole)):
        torch.manual_seed(1)
        reader = Reader(loader)
        reader.advance(skip)
        assert [batch.tolist() for batch in reader] == whole[skip:]
    torch.manual_seed(1)
    assert [batch.tolist() for batch in loader] == whole  # a skip is for one pass only


def test_a_resumable_sampler_hands_on_what_is_asked_of_the_wrapped_one() -> None:
    generator = torch.Generator().manual_seed(3)
    sampler = ResumableSampler(torch.utils.data.RandomSampler(range(5), generator=generator))
    assert sampler.generator is generator and len(sampler) == 5
    with pytest.raises(PositionLost, match="a generator of its own"):
        list(Checkpointer(state={}).batches(torch.utils.data.DataLoader(range(5), sampler=sampler)))
    assert len(list(copy.copy(sampler))) == 5


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdatas_stateful_loader_goes_on_behind_the_batch_it_was_stopped_at(workers: int) -> None:
    """The real one."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def train(folder: str, stop_at: int | None) -> list[Any]:
        torch.manual_seed(0 if stop_at or folder == "whole" else 9)
        data = torch.utils.data.TensorDataset(torch.arange(40.0))
        loader = stateful.StatefulDataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
        log: dict[str, list[Any]] = {"seen": []}
        ckpt = Checkpointer(folder=folder, log=log, loader=loader, every_steps=1)
        for _ in ckpt.epochs(2):
            for (x,) in ckpt.batches():
                log["seen"].append(x.tolist())
                ckpt.step()
                if ckpt.step_count == stop_at:
                    return []
        return log["seen"]

    whole = train("whole", None)
    assert len(whole) == 20
    for stop_at in (3, 10, 14):
        train("f%d" % stop_at, stop_at)
        assert train("f%d" % stop_at, None) == whole, stop_at


class KeepsItsPlace:
    """The protocol of torchdata's StatefulDataLoader, in ten lines."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < 6:
            self.at += 1
            yield self.at
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def test_a_loader_that_keeps_its_own_position_is_asked_for_it() -> None:
    seen = []
    loader = KeepsItsPlace()
    ckpt = Checkpointer(state={}, loader=loader, every_steps=1)
    for _ in ckpt.epochs(2):
        for item in ckpt.batches():
            seen.append(item)
            ckpt.step()
            if len(seen) == 8:
                break
        if len(seen) == 8:
            break
    loader = KeepsItsPlace()
    ckpt = Checkpointer(state={}, loader=loader, every_steps=1)
    for _ in ckpt.epochs(2):
        seen += list(ckpt.batches())
    assert seen == [1, 2, 3, 4, 5, 6] * 2
    with pytest.raises(PositionLost, match="keeps its own position"):
        list(Checkpointer(state={}, folder="other").batches(KeepsItsPlace()))


def test_frozen_and_thawed_states_share_what_they_shared() -> None:
    base = torch.arange(10.0)
    tree = arrays.Freezer().freeze({"a": base[:5], "b": base[3:], "again": [base]})
    for share in (False, True):
        live = arrays.thaw(tree, share=share)
        live["a"][4] = 77
        assert live["b"][1] == 77 and live["again"][0][4] == 77
    assert base[4] == 77  # with share it was the very memory
