"""What only PyTorch files have: views of one storage, other writers, code instead of weights, our own checkpoints."""

import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch.values import Storage, Tensor
from tests.backends import samples


def judged(path: Path) -> Judgement:
    return judge_file(str(path), path.name)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where PyTorch is not installed: importing it fails."""
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)


def ours(path: Path, values: bytes, dtype: str = "float32", shape: tuple[int, ...] = (3,)) -> None:
    """A checkpoint as sojourn.train writes it."""
    tensor = Tensor(dtype, shape, (1,), 0, Storage(len(values), lambda: memoryview(values)))
    with open(path, "wb") as f:
        torch_write.plan({"w": tensor, "step": 5}, {"step": 5, "metrics": {"loss": 0.5}}).write_to(f.fileno())


@pytest.mark.torch
def test_everything_that_weights_only_reads_is_accepted(torch: Any, tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6) + 1
    shared = torch.nn.Linear(3, 3)
    good = {
        "transposed": base.t(),
        "column": base[:, 2],
        "expanded": torch.ones(1).expand(1000, 1000),
        "empty": torch.zeros(0, 5),
        "scalar": torch.tensor(2.5),
        "sparse": torch.eye(3).to_sparse(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "tied": (shared.weight, shared.weight),
        "types": [torch.ones(3, dtype=d) for d in (torch.bool, torch.int16, torch.complex64, torch.float8_e5m2)],
        "uint16": torch.ones(3, dtype=torch.uint16),
        "optimizer": torch.optim.Adam(shared.parameters()).state_dict(),
        "plain": {"a": 1, 2: [None, True, 1.5, "é", b"x", (1, 2), {3}]},
        "dtype": torch.float32,
        "device": torch.device("cpu"),
    }
    torch.save(good, tmp_path / "a.pt")
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.detail) == ("", "")
    assert "load" in found.proved
    assert str(found.facts["by"]).startswith("torch ")


@pytest.mark.torch
def test_nan_that_no_tensor_shows_is_nobodys(torch: Any, tmp_path: Path) -> None:
    base = torch.ones(100, 6)
    base[:, 3] = float("nan")
    torch.save({"left": base[:, :3], "right": base[:, 4:], "head": base.reshape(-1)[:3]}, tmp_path / "a.pt")
    assert judged(tmp_path / "a.pt").problem == ""
    torch.save({"left": base[:, :3], "wrong": base[:, 2:4]}, tmp_path / "b.pt")
    assert judged(tmp_path / "b.pt").problem == "non-finite"


@pytest.mark.torch
def test_a_program_is_unsafe_and_a_module_is_read_and_named(torch: Any, tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    found = judged(tmp_path / "module.pt")
    assert (found.problem, found.proved) == ("", ("structure", "content"))
    assert "classes not built: torch.nn.modules.linear.Linear" in found.remarks[0]
    assert judged(tmp_path / "script.pt").problem == "unsafe"


@pytest.mark.torch
def test_an_innocent_class_outside_the_list_is_read_and_named(torch: Any, tmp_path: Path) -> None:
    import argparse

    torch.save({"args": argparse.Namespace(lr=0.1), "w": torch.ones(2)}, tmp_path / "a.pt")
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.proved) == ("", ("structure", "content"))
    assert found.remarks[0] == "content known, classes not built: argparse.Namespace"


@pytest.mark.torch
def test_the_old_format_is_read_and_never_run(torch: Any, tmp_path: Path) -> None:
    shared = torch.arange(12.0)
    good = {"w": shared[:4], "rest": shared[4:], "i": torch.arange(3), "step": 7, "none": torch.zeros(0)}
    torch.save(good, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    found = judged(tmp_path / "old.pt")
    assert (found.kind, found.problem, found.proved) == ("torch_legacy", "", ("structure", "load", "content"))
    torch.save({"m": torch.nn.Linear(2, 2)}, tmp_path / "module.pt", _use_new_zipfile_serialization=False)
    assert judged(tmp_path / "module.pt").proved == ("structure", "content")
    canary = tmp_path / "canary"
    hostile = {"w": torch.ones(2), "bomb": samples.Bomb(canary)}
    torch.save(hostile, tmp_path / "bomb.pt", _use_new_zipfile_serialization=False)
    assert judged(tmp_path / "bomb.pt").problem == "unsafe"
    assert not canary.exists()


@pytest.mark.torch
def test_the_old_format_is_loaded_by_our_reader_where_it_is_large(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.backends.loader import torch_legacy

    torch.save({"w": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert str(judged(tmp_path / "old.pt").facts["by"]).startswith("torch ")
    monkeypatch.setattr(torch_legacy, "_TORCH_LIMIT_BYTES", 10)
    assert judged(tmp_path / "old.pt").facts["by"] == "sojourn"


@pytest.mark.torch
def test_a_file_written_without_checksums_is_good_and_remarked(torch: Any, tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.randn(500)}, tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    found = judged(tmp_path / "a.pt")
    assert (found.problem, "without checksums" in found.remarks[0]) == ("", True)


@pytest.mark.torch
def test_a_repacked_archive_still_loads(torch: Any, tmp_path: Path) -> None:
    torch.save({"w": torch.randn(5000)}, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as old,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert judged(tmp_path / "b.pt").problem == ""


@pytest.mark.torch
def test_what_torch_load_accepts_in_silence_is_refused(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.randn(50_000)}, path)
    good = path.read_bytes()
    (begin, end) = max(samples.zip_payload(good), key=lambda part: part[1] - part[0])
    for damaged in (
        good[: begin + 999] + bytes([good[begin + 999] ^ 4]) + good[begin + 1000 :],
        good[:begin] + bytes(8192) + good[begin + 8192 :],
    ):
        path.write_bytes(damaged)
        torch.load(path, weights_only=True)
        assert judged(path).problem == "corrupt"


def test_torch_zips_are_proven_but_not_loaded_without_torch(tmp_path: Path, without_torch: None) -> None:
    samples.torch_zip_of(str(tmp_path / "a.pt"), plain_tensor_pickle(), **{"0": struct.pack("<3f", 1, 2, 3)})
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.proved) == ("", ("structure", "content"))
    assert "PyTorch is not installed" in found.remarks[-1]


def plain_tensor_pickle(elements: int = 3) -> bytes:
    """What torch.save writes for {"w": a float tensor}."""
    text = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("
    text += b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    text += b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x03tQK\x00K" + bytes([elements]) + b"\x85K\x01\x85\x89"
    return text + b"ccollections\nOrderedDict\n)RtRs."


def test_our_own_checkpoints_are_loaded_without_torch(tmp_path: Path, without_torch: None) -> None:
    ours(tmp_path / "step-5.pt", struct.pack("<3f", 1, 2, 3))
    found = judged(tmp_path / "step-5.pt")
    assert (found.problem, set(found.proved)) == ("", {"structure", "load", "content"})
    assert found.facts["by"] == "sojourn"
    assert found.facts["sojourn"] == {"step": 5, "metrics": {"loss": 0.5}}


def test_every_changed_byte_of_our_own_checkpoint_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "step-5.pt"
    ours(path, struct.pack("<3f", 1, 2, 3))
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert judged(path).problem, f"byte {at} of {len(good)}"


def test_our_own_checkpoint_with_nan_is_not_finite(tmp_path: Path) -> None:
    ours(tmp_path / "step-5.pt", struct.pack("<3f", 1, float("nan"), 3))
    assert judged(tmp_path / "step-5.pt").problem == "non-finite"


def test_a_view_that_leaves_its_storage_is_corrupt(tmp_path: Path) -> None:
    samples.torch_zip_of(str(tmp_path / "a.pt"), plain_tensor_pickle(elements=200), **{"0": bytes(12)})
    assert judged(tmp_path / "a.pt").problem == "corrupt"


def test_a_storage_that_is_missing_or_short_is_corrupt(tmp_path: Path) -> None:
    samples.torch_zip_of(str(tmp_path / "a.pt"), plain_tensor_pickle())
    assert judged(tmp_path / "a.pt").problem == "corrupt"
    samples.torch_zip_of(str(tmp_path / "b.pt"), plain_tensor_pickle(), **{"0": bytes(8)})
    assert judged(tmp_path / "b.pt").problem == "corrupt"


def test_a_zip_of_something_else_is_a_mismatch(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as z:
        z.writestr("readme.txt", "not weights")
    assert judged(tmp_path / "a.pt").problem == "mismatch"


def test_overlapping_entries_and_escaping_names_are_refused(tmp_path: Path) -> None:
    samples.torch_zip_of(str(tmp_path / "a.pt"), plain_tensor_pickle(), **{"../../0": bytes(12)})
    assert judged(tmp_path / "a.pt").problem == "escapes-root"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        z.writestr("a/data.pkl", pickle.dumps({}, 2))
        z.writestr("a/twin", pickle.dumps({}, 2))
        z.filelist[1].header_offset = z.filelist[0].header_offset
        z.filelist[1].filename = z.filelist[1].orig_filename = "a/data.pkl"
    (tmp_path / "b.pt").write_bytes(data.getvalue())
    assert judged(tmp_path / "b.pt").problem == "corrupt"


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("count", [1048464, 1048484, 3145601])
def test_what_inflates_to_just_over_a_piece_is_whole(count: int, tmp_path: Path) -> None:
    # zlib may hold back up to one match (258 bytes) when a piece of 1 MiB is full and all its input is taken.
    import numpy as np

    for width in range(1, 40):
        row = np.arange(width, dtype="u1") * 37
        np.savez_compressed(tmp_path / "a.npz", a=np.resize(row, count))
        assert judged(tmp_path / "a.npz").detail == "", width


def test_a_bomb_is_unsafe_before_it_is_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.backends.proof import archive

    monkeypatch.setattr(archive, "BOMB_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", bytes(4 << 20))
    found = judged(tmp_path / "a.npz")
    assert found.problem == "unsafe"
    assert "inflate" in found.detail
