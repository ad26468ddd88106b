"""Sets of files are whole or they are not good: shards of a model, folders of torch.distributed.checkpoint."""

import json
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.backends.proof.proof import Prover
from tests.backends import samples

INDEX = "model.safetensors.index.json"


def every(folder: Path) -> dict[str, Judgement]:
    return {path.name: judge_file(str(path), path.name) for path in sorted(folder.iterdir())}


def bad(folder: Path) -> dict[str, str]:
    return {name: found.problem for name, found in every(folder).items() if found.problem}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three shards and their index, as transformers writes them."""
    folder, weights, total = tmp_path / "model", {}, 0
    folder.mkdir()
    for shard in (1, 2, 3):
        name = f"model-{shard:05}-of-00003.safetensors"
        tensors = {f"layer{shard}.{n}": np.arange(40, dtype=np.float32) + n for n in range(3)}
        safetensors.numpy.save_file(tensors, folder / name, {"format": "pt"})
        weights.update(dict.fromkeys(tensors, name))
        total += sum(tensor.nbytes for tensor in tensors.values())
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weights}))
    return folder


def test_a_whole_set_is_good(model: Path) -> None:
    assert bad(model) == {}
    found = every(model)[INDEX]
    assert (found.kind, found.facts["shards"], found.facts["tensors"], found.remarks) == ("shard_index", 3, 9, ())


def test_a_missing_shard_is_named_by_the_index(model: Path) -> None:
    (model / "model-00002-of-00003.safetensors").unlink()
    assert bad(model) == {INDEX: "missing-shard"}
    assert "model-00002-of-00003.safetensors" in every(model)[INDEX].detail


def test_shards_without_their_index_are_remarked_and_an_incomplete_set_of_them_is_refused(model: Path) -> None:
    (model / INDEX).unlink()
    assert bad(model) == {}
    assert all("without its index" in found.remarks[-1] for found in every(model).values())
    (model / "model-00002-of-00003.safetensors").unlink()
    assert set(bad(model).values()) == {"missing-shard"}


def test_a_shard_of_another_save_is_refused(model: Path) -> None:
    stray = model / "model-00004-of-00004.safetensors"
    safetensors.numpy.save_file({"old": np.ones(3)}, stray)
    assert bad(model) == {INDEX: "mismatch"}


def test_keys_that_the_index_does_not_know_or_lacks_are_refused(model: Path) -> None:
    shard = model / "model-00001-of-00003.safetensors"
    safetensors.numpy.save_file({"layer1.0": np.ones(3), "other": np.ones(3)}, shard)
    assert bad(model) == {INDEX: "mismatch"}
    assert "other" in every(model)[INDEX].detail


def test_a_cut_shard_fails_itself_and_its_set(model: Path) -> None:
    shard = model / "model-00001-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 5)
    assert bad(model) == {INDEX: "truncated", shard.name: "truncated"}


def test_an_index_that_leads_out_of_its_folder_is_refused(model: Path) -> None:
    for file in ("../model-00001-of-00003.safetensors", "/etc/passwd", ".."):
        (model / INDEX).write_text(json.dumps({"weight_map": {"layer1.0": file}}))
        assert bad(model)[INDEX] == "escapes-root"


def test_an_index_without_a_map_is_unparseable(model: Path) -> None:
    for text in ("[]", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', "{", '{"metadata": {}}'):
        (model / INDEX).write_text(text)
        assert bad(model)[INDEX] in ("unparseable", "truncated")


def test_a_set_is_judged_where_its_files_have_other_names(model: Path, tmp_path: Path) -> None:
    """As `pull` has it: each file lies under a name of its own until it is proven."""
    beside = {}
    for number, path in enumerate(sorted(model.iterdir())):
        beside[path.name] = str(path.rename(tmp_path / f"staged{number}{path.suffix}"))
    with Prover(1) as prover:
        assert prover.prove(beside[INDEX], "out/" + INDEX, beside=beside).problem == ""
        del beside["model-00002-of-00003.safetensors"]
        assert prover.prove(beside[INDEX], "out/" + INDEX, beside=beside).problem == "missing-shard"


def test_a_loader_that_fails_takes_no_other_file_with_it(model: Path) -> None:
    """It ends its process, which must not be asked about the next file while it is still ending."""
    good = model / "model-00001-of-00003.safetensors"
    nonsense: dict[str, str] = {path.name: None for path in model.iterdir()}  # type: ignore[misc]
    with Prover(1) as prover:
        for _ in range(5):
            assert prover.prove(str(model / INDEX), INDEX, beside=nonsense).problem == "unsupported"
            assert prover.prove(str(good), good.name).problem == ""


@pytest.mark.torch
def test_a_torch_set_is_whole_or_not(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weights = {}
    for shard in (1, 2):
        name = f"pytorch_model-{shard:05}-of-00002.bin"
        torch.save({f"w{shard}": torch.randn(30)}, tmp_path / name, _use_new_zipfile_serialization=shard == 1)
        weights[f"w{shard}"] = name
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 240}, "weight_map": weights}))
    assert bad(tmp_path) == {}
    assert every(tmp_path)[index.name].remarks == ()
    (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
    assert bad(tmp_path) == {index.name: "missing-shard"}
    index.unlink()
    assert bad(tmp_path) == {"pytorch_model-00001-of-00002.bin": "missing-shard"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder that torch.distributed.checkpoint wrote, with several files."""
    torch = pytest.importorskip("torch")
    import torch.distributed.checkpoint as dcp

    chance = torch.Generator().manual_seed(1)
    state = {
        "model": {"w": torch.randn(64, 50, generator=chance), "b": torch.randn(7, generator=chance).bfloat16()},
        "step": 12,
        "optim": {"lr": [0.1, 0.2], "steps": torch.arange(5)},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(
            state, storage_writer=dcp.FileSystemWriter(tmp_path / "ckpt", single_file_per_rank=False), no_dist=True
        )
    return tmp_path / "ckpt"


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.distcp"))


@pytest.mark.torch
def test_a_whole_distributed_checkpoint_is_good(saved: Path) -> None:
    assert bad(saved) == {}
    found = every(saved)
    assert (found[".metadata"].kind, found[".metadata"].facts["files"]) == ("dcp", len(shards(saved)))
    assert {f.kind for name, f in found.items() if name != ".metadata"} == {"dcp_shard"}
    assert all(set(f.proved) == {"structure", "load", "content"} for f in found.values())


@pytest.mark.torch
def test_a_missing_rank_file_is_missing(saved: Path) -> None:
    lost = shards(saved)[0]
    lost.unlink()
    assert bad(saved) == {".metadata": "missing-shard"}
    assert lost.name in every(saved)[".metadata"].detail


@pytest.mark.torch
def test_rank_files_without_their_metadata_are_no_checkpoint(saved: Path) -> None:
    (saved / ".metadata").unlink()
    assert set(bad(saved)) == {path.name for path in shards(saved)}
    assert set(bad(saved).values()) == {"missing-shard"}


@pytest.mark.torch
def test_a_rank_file_of_another_save_is_refused_and_an_empty_one_is_not(saved: Path) -> None:
    (saved / "__7_0.distcp").write_bytes(shards(saved)[0].read_bytes())
    assert bad(saved) == {"__7_0.distcp": "mismatch"}
    (saved / "__7_0.distcp").write_bytes(b"")
    assert bad(saved) == {}


@pytest.mark.torch
def test_a_damaged_rank_file_is_seen(saved: Path) -> None:
    largest = max(shards(saved), key=lambda path: path.stat().st_size)
    whole = largest.read_bytes()
    for what, data, problem in (
        ("cut", whole[: len(whole) // 2], "truncated"),
        ("cut at its end", whole[:-1], "truncated"),
        ("empty", b"", "empty"),
        ("longer", whole + b"\0", "corrupt"),
        ("a flipped bit", whole[:5000] + bytes([whole[5000] ^ 4]) + whole[5001:], "corrupt"),
        ("a hole", whole[:4096] + bytes(4096) + whole[8192:], "corrupt"),
    ):
        largest.write_bytes(data)
        assert bad(saved)[largest.name] == problem, what


@pytest.mark.torch
def test_damaged_metadata_is_seen_and_condemns_what_it_describes(saved: Path) -> None:
    meta = saved / ".metadata"
    whole = meta.read_bytes()
    for cut in (1, 10, len(whole) // 2, len(whole) - 1):
        meta.write_bytes(whole[:cut])
        assert bad(saved)[".metadata"] in ("truncated", "corrupt"), cut
    meta.write_bytes(b"")
    assert bad(saved)[".metadata"] == "empty"
    assert set(bad(saved)) == {".metadata", *(path.name for path in shards(saved))}


@pytest.mark.torch
def test_nan_in_a_rank_file_is_found(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"w": torch.tensor([1.0, float("nan")])}, checkpoint_id=tmp_path / "nan", no_dist=True)
    assert set(bad(tmp_path / "nan").values()) == {"non-finite"}


@pytest.mark.parametrize(
    "module", ["posix", "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.os"]
)
def test_hostile_metadata_is_unsafe_and_never_run(module: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    folder = tmp_path / "ckpt"
    folder.mkdir()
    name = "system" if module == "posix" else "os.system"
    command = f"touch {canary}"
    raw = (
        b"\x80\x04\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(name)])
        + name.encode()
        + b"\x93"
    )
    raw += b"X" + len(command).to_bytes(4, "little") + command.encode() + b"\x85R."
    (folder / ".metadata").write_bytes(raw)
    assert judge_file(str(folder / ".metadata"), ".metadata").problem == "unsafe"
    for protocol in (2, 4, 5):
        (folder / ".metadata").write_bytes(pickle.dumps({"a": samples.Bomb(canary)}, protocol=protocol))
        assert judge_file(str(folder / ".metadata"), ".metadata").problem in ("unsafe", "corrupt")
    assert not canary.exists()
