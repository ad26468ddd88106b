"""The same files, judged by PyTorch itself: what we write it reads, what it writes we read."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import DTYPES, Tensor

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SAVED = [name for name in DTYPES if not name.startswith(("q", "bits", "float4")) and hasattr(torch, name)]


def tensor(dtype: str, count: int = 12) -> Any:
    kind = getattr(torch, dtype)
    raw = torch.arange(1, 1 + count * kind.itemsize, dtype=torch.int64).to(torch.uint8)
    return raw.clone().view(kind) if dtype != "bool" else raw.view(torch.uint8) % 2 == 1


def bits(value: Any) -> bytes:
    return bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist()) if value.numel() else b""


def ours(path: Path, tree: Any) -> Path:
    fd = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    torch_write.plan(tree, {"step": 1}).write_to(fd)
    os.close(fd)
    return path


def model_and_optimizer() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 3, 5])
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}


@pytest.mark.parametrize("dtype", SAVED)
@pytest.mark.parametrize("mmap", [False, True])
def test_torch_loads_what_we_write_bit_for_bit(tmp_path: Path, dtype: str, mmap: bool) -> None:
    source = tensor(dtype)
    data = bytes(bits(source))
    from sojourn.formats.torch.values import Storage

    storage = Storage(len(data), lambda: memoryview(data))
    tree = {"a": Tensor(dtype, (3, 4), (1, 3), 0, storage), "b": Tensor(dtype, (2,), (1,), 5, storage)}
    loaded = torch.load(ours(tmp_path / "a.pt", tree), weights_only=True, mmap=mmap)
    assert loaded["a"].dtype == source.dtype
    assert bits(loaded["a"]) == bits(source.as_strided((3, 4), (1, 3)))
    assert bits(loaded["b"]) == bits(source[5:7])
    assert loaded["a"].untyped_storage().data_ptr() == loaded["b"].untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", SAVED)
def test_we_read_what_torch_saves_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    source = tensor(dtype)
    torch.save({"t": source.reshape(3, 4).t(), "empty": source[:0]}, tmp_path / "a.pt")
    tree = torch_zip.read_zip(str(tmp_path / "a.pt")).tree
    assert (tree["t"].dtype, tree["t"].shape, tree["t"].stride) == (dtype, (4, 3), (1, 4))
    assert bytes(tree["t"].storage.view()) == bits(source)
    assert tree["empty"].elements == 0


def test_what_torch_saved_and_we_rewrote_loads_the_same(tmp_path: Path) -> None:
    state = model_and_optimizer()
    torch.save(state, tmp_path / "a.pt")
    again = ours(tmp_path / "b.pt", torch_zip.read_zip(str(tmp_path / "a.pt")).tree)
    loaded = torch.load(again, weights_only=True)
    assert repr(loaded) == repr(state)
    assert loaded["model"]._metadata == state["model"]._metadata
    assert loaded["scheduler"]["milestones"] == state["scheduler"]["milestones"]


def test_the_walker_finds_torchs_files_sound_and_lists_their_tensors(tmp_path: Path) -> None:
    state = model_and_optimizer()
    torch.save(state, tmp_path / "a.pt")
    seen = torch_zip.walk(str(tmp_path / "a.pt"))
    assert seen.problems == () and seen.proved == ("bytes", "structure") and not seen.ours
    want = {f"model.{name}": tuple(value.shape) for name, value in state["model"].items()}
    assert {name: t.shape for name, t in seen.tensors if name.startswith("model.")} == want


def test_a_whole_module_is_listed_and_called_unsafe(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    seen = torch_zip.walk(str(tmp_path / "a.pt"))
    assert [kind for kind, _ in seen.problems] == ["unsafe"] and seen.unsafe == ("torch.nn.modules.linear.Linear",)
    assert sorted(t.shape for _, t in seen.tensors) == [(2,), (2, 2)]


def test_every_global_that_torch_lets_pass_is_known_as_safe() -> None:
    from torch._weights_only_unpickler import _get_allowed_globals

    from sojourn.formats.torch.unpickle import SAFE

    plain = {name for name in _get_allowed_globals() if not name.startswith("torch.")}
    assert plain <= SAFE
    classes = ("torch.int", "torch.uint", "torch.sparse", "torch.cuda", "torch.bits")
    missing = {name for name in set(_get_allowed_globals()) - SAFE if not name.startswith(classes)}
    assert missing <= {name for name in missing if name.endswith(("Tensor", "Storage"))}


def test_a_flip_in_what_torch_saved_is_found(tmp_path: Path) -> None:
    torch.save(model_and_optimizer(), tmp_path / "a.pt")
    good = (tmp_path / "a.pt").read_bytes()
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        at = good.index(z.read("a/data/0"))
    (tmp_path / "a.pt").write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    assert torch_zip.walk(str(tmp_path / "a.pt")).problems[0][0] == "corrupt"


def test_torch_files_in_which_entries_are_compressed_are_read_too(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1000)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as old, zipfile.ZipFile(
        tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED
    ) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert bytes(torch_zip.read_zip(str(tmp_path / "b.pt")).tree["w"].storage.view()) == bytes(4000)


def test_torchscript_archives_are_listed(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), tmp_path / "a.pt")
    seen = torch_zip.walk(str(tmp_path / "a.pt"))
    assert seen.entries and "corrupt" not in [kind for kind, _ in seen.problems]
