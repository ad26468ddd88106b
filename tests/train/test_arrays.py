"""numpy arrays and scalars of every kind come back as what they were, through a file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.pickle import Unsaveable
from sojourn.train.saving import arrays


def through_a_file(tmp_path: Path, value: Any, share: bool = False) -> Any:
    fd = os.open(str(tmp_path / "a.pt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    torch_write.plan(arrays.Freezer().freeze(value), {}).write_to(fd)
    os.close(fd)
    return arrays.thaw(torch_zip.read_zip(str(tmp_path / "a.pt")).tree, share)


DTYPES = [
    "?",
    "i1",
    "u2",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "g",
    "c8",
    "c16",
    ">f4",
    ">i8",
    "U5",
    "S3",
    "M8[ns]",
    "m8[s]",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [False, True])
def test_arrays_of_every_dtype_and_layout(dtype: str, share: bool, tmp_path: Path) -> None:
    base = (
        np.arange(24).astype("S3" if dtype == "S3" else "U5" if dtype == "U5" else "i8").astype(dtype).reshape(2, 3, 4)
    )
    shapes = [
        base,
        base.T,
        np.asfortranarray(base),
        base[:, ::2, 1:],
        base[0, 0, 0:1].reshape(()),
        base[:0],
        base[::-1],
    ]
    back = through_a_file(tmp_path, shapes, share)
    for one, other in zip(shapes, back):
        assert (other.dtype, other.shape) == (one.dtype, one.shape) and type(other) is np.ndarray
        assert other.tobytes() == one.tobytes()
    assert back[1].flags.f_contiguous and back[0].flags.c_contiguous and back[0].flags.writeable


@pytest.mark.parametrize("dtype", [*DTYPES, "U0"])
def test_scalars_stay_scalars_of_their_dtype(dtype: str, tmp_path: Path) -> None:
    one = np.zeros(2, "i8").astype("U0" if dtype == "U0" else dtype)
    kinds = [one[0], one[1], np.float64(1.5), np.bool_(True)]
    back = through_a_file(tmp_path, kinds)
    assert [type(value) for value in back] == [type(value) for value in kinds]
    assert [repr(value) for value in back] == [repr(value) for value in kinds]


def test_thousands_of_scalars_take_one_piece(tmp_path: Path) -> None:
    losses = [np.float32(i) for i in range(20000)]
    began_s = time.process_time()
    assert through_a_file(tmp_path, losses) == losses
    assert time.process_time() - began_s < 5
    assert sum("/data/" in e.name for e in torch_zip.walk(str(tmp_path / "a.pt")).entries) == 1


def test_one_array_under_two_names_is_written_once_and_stays_one(tmp_path: Path) -> None:
    array = np.arange(5)
    back = through_a_file(tmp_path, {"a": array, "b": [array]})
    assert back["a"] is back["b"][0]


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.zeros(2, "i4,f4"), np.zeros(2, "V3")], ids=["object", "fields", "void"]
)
def test_arrays_that_could_not_be_read_back_safely_are_refused_by_place(value: Any) -> None:
    with pytest.raises(Unsaveable, match=r"state\.odd cannot be saved"):
        arrays.Freezer().freeze({"odd": value}, "state")


def test_cycles_and_shared_containers_survive(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"n": 1}
    inner["self"] = inner
    back = through_a_file(tmp_path, [inner, inner, (inner,)])
    assert back[0] is back[1] is back[2][0] is back[0]["self"]
