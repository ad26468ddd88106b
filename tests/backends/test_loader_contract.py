"""Every loader keeps the contract of `testing/contracts/loader.py`, on files written by the real libraries."""

import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from sojourn import backends
from sojourn.testing.contracts import loader
from tests.backends import samples

GIVEN = {
    name: sample
    for path in sorted(Path(__file__).parent.glob("*samples.py"))
    for name, sample in importlib.import_module(f"tests.backends.{path.stem}").SAMPLES.items()
}
ALL = [
    pytest.param(sample, id=name, marks=pytest.mark.torch if sample.needs == "torch" else ())
    for name, sample in GIVEN.items()
]


class TestEveryLoader(loader.LoaderContract):
    @pytest.fixture(params=ALL)
    def sample(self, request: pytest.FixtureRequest) -> loader.Sample:
        return request.param


def test_every_loader_has_a_sample_here_or_is_of_sets_alone() -> None:
    found = [backends.get("loader", name) for name in backends.names("loader")]
    of_sets = {one.kind for one in found if not any(loader.may_stand_alone(one, s) for s in one.suffixes)}
    assert {sample.kind for sample in GIVEN.values()} | of_sets == {one.kind for one in found}


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
