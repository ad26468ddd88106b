"""Whatever happens to a small file of any format, judging it gives a word or a whole file, and raises nothing."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn.backends.client.judge import judge
from sojourn.wire.damage import PROBLEMS
from tests.backends import samples

SMALL = {"a": np.arange(5, dtype="<f4"), "b": np.array([[1, 2]], dtype="<i8")}


def small(kind: str, path: Path) -> None:
    """A file of a few hundred bytes, so that a change hits something that matters."""
    if kind == "npy":
        np.save(path, SMALL["a"])
    elif kind == "npz":
        np.savez(path, **SMALL)
    elif kind == "packed.npz":
        np.savez_compressed(path, **SMALL)
    elif kind == "safetensors":
        safetensors.numpy.save_file(SMALL, str(path))
    elif kind == "json":
        path.write_text('{"a": [1, -2.5e3, null, true], "é": {"x": "y\\n\\u00e9"}, "b": []}', encoding="utf-8")
    else:
        torch = pytest.importorskip("torch")
        torch.save({key: torch.from_numpy(value) for key, value in SMALL.items()}, path)


KINDS = ["npy", "npz", "packed.npz", "safetensors", "json", pytest.param("pt", marks=pytest.mark.torch)]


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=250, deadline=None)
@given(data=st.data())
def test_any_change_gives_a_word_or_a_whole_file(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    good, path = tmp_path / ("good." + kind), tmp_path / ("changed." + kind)
    if not good.exists():
        small(kind, good)
    raw = good.read_bytes()
    begin = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(begin, min(begin + data.draw(st.sampled_from([0, 1, 4, 400])), len(raw))))
    path.write_bytes(raw[:begin] + data.draw(st.binary(max_size=9)) + raw[end:])
    found = judge(str(path), path.name)
    assert found.problem == "" or (found.problem in PROBLEMS and found.detail)
    assert bool(found.proved) == (not found.problem)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(pickled=st.binary(max_size=60), tail=st.binary(max_size=20))
def test_any_pickle_in_a_torch_zip_gives_a_word_or_a_whole_file(tmp_path: Path, pickled: bytes, tail: bytes) -> None:
    path = tmp_path / "a.pt"
    for body in (
        pickled,
        b"\x80\x02}q\x00" + pickled + b".",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + pickled + tail,
    ):
        samples.torch_zip_of(str(path), body, **{"0": bytes(16)})
        found = judge(str(path), "a.pt")
        assert found.problem == "" or (found.problem in PROBLEMS and found.detail)
