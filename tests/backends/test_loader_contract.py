"""Every loader keeps the contract of `testing/contracts/loader.py`, on files written by the real libraries."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sojourn import backends
from sojourn.backends.proof.proof import Prover
from sojourn.testing.contracts import loader
from tests.backends import more_samples, samples

GIVEN = {**samples.SAMPLES, **more_samples.MORE}
NEED_TORCH = {"torch_zip": samples.TORCH, "torch_legacy": more_samples.LEGACY}
ALL = [pytest.param(sample, id=name) for name, sample in GIVEN.items()]
ALL += [pytest.param(sample, id=name, marks=pytest.mark.torch) for name, sample in NEED_TORCH.items()]
NAMELESS = {"json", "jsonl", "csv", "pickle", "yaml"}  # content does not say what it is
each = pytest.mark.parametrize("sample", ALL)


@pytest.fixture(autouse=True)
def torch_is_there(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("torch"):
        pytest.importorskip("torch")


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    with Prover(1) as found:
        yield found


def test_every_loader_has_a_sample_here() -> None:
    kinds = {sample.kind for sample in [*GIVEN.values(), *NEED_TORCH.values()]}
    assert kinds | more_samples.SETS == {backends.get("loader", name).kind for name in backends.names("loader")}


@each
def test_a_good_file_is_accepted(sample: loader.Sample, tmp_path: Path) -> None:
    loader.check_accepted(sample, tmp_path)


@each
def test_a_good_file_is_known_by_its_content(sample: loader.Sample, tmp_path: Path) -> None:
    if sample.kind in NAMELESS:
        return
    loader.check_accepted_under_any_name(sample, tmp_path)


@each
def test_damage_is_seen(sample: loader.Sample, tmp_path: Path) -> None:
    for specimen in loader.specimens(sample.good(tmp_path), sample):
        loader.check_refused(sample, specimen, tmp_path)


@each
def test_no_damage_passes_a_manifest(sample: loader.Sample, tmp_path: Path, prover: Prover) -> None:
    loader.check_refused_with_manifest(sample.good(tmp_path), sample, tmp_path, prover)


@each
def test_another_types_name_is_refused(sample: loader.Sample, tmp_path: Path) -> None:
    found = {loader.kind: loader for loader in (backends.get("loader", name) for name in backends.names("loader"))}
    every = {s for other in found.values() for s in other.suffixes if other.kind not in more_samples.SETS}
    own = {*found[sample.kind].suffixes, *getattr(found[sample.kind], "also", ())}
    if sample.kind == "json":
        own |= {".jsonl", ".ndjson"}  # a document on one line is a file of one JSON line
        own |= {".yaml", ".yml"}  # every JSON document is one of YAML
    others = sorted(s.replace("*", "1") for s in every - own)
    loader.check_renamed_is_refused(sample, iter(others), tmp_path)


@each
def test_a_single_nan_is_found(sample: loader.Sample, tmp_path: Path) -> None:
    if sample.write_nan is None:
        return  # it holds no numbers that we look at
    loader.check_nan_is_found(sample, tmp_path)


@pytest.mark.parametrize("suffix", [".pt", ".ckpt", ".pkl", ".bin", ".npy", ".npz", ".json", ".safetensors", ""])
def test_a_plain_pickle_is_never_run_whatever_its_name(suffix: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for what, data in samples.hostile_pickles(canary).items():
        path = tmp_path / ("hostile" + suffix)
        path.write_bytes(data)
        if suffix in ("", ".bin") and not data.startswith(b"\x80"):
            continue  # bytes of no known kind: not read by any loader
        loader.check_never_runs(path, canary)
        assert not canary.exists(), what


def test_a_hostile_pickle_inside_a_torch_zip_is_never_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for what, data in samples.hostile_pickles(canary).items():
        path = tmp_path / "hostile.pt"
        samples.torch_zip_of(str(path), data)
        found = loader.check_never_runs(path, canary)
        if what != "broken after":
            assert found.problem == "unsafe", what


def test_a_pickle_inside_numpy_files_is_never_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    bombs = np.array([samples.Bomb(canary)], dtype=object)
    np.save(tmp_path / "hostile.npy", bombs, allow_pickle=True)
    np.savez(tmp_path / "hostile.npz", good=np.ones(3), bad=bombs)
    np.save(tmp_path / "record.npy", np.array([(1, samples.Bomb(canary))], dtype=[("n", "i4"), ("o", "O")]))
    for name in ("hostile.npy", "hostile.npz", "record.npy"):
        assert loader.check_never_runs(tmp_path / name, canary).problem == "unsafe"


def test_the_canary_would_sing(tmp_path: Path) -> None:
    """The hostile pickles really are: run by an ordinary reader, each makes the canary."""
    canary = tmp_path / "canary"
    for what, data in samples.hostile_pickles(canary).items():
        if what == "broken after":
            with pytest.raises(pickle.UnpicklingError):
                pickle.loads(data)
        else:
            pickle.loads(data)
        assert canary.exists(), what
        canary.unlink()
