"""What lies inside others: artifacts in archives are judged, packed entries judged in pieces, odd headers seen."""

import bz2
import gzip
import io
import lzma
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.backends.proof.judge import Judgement, judge_file
from tests.backends import samples


def judged(path: Path) -> Judgement:
    return judge_file(str(path), path.name)


def zipped(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(name, data)
    return out.getvalue()


def taped(mode: Any, name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def array(*values: float) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(values))
    return out.getvalue()


PACKED: dict[str, Callable[[str, bytes], bytes]] = {
    "a.zip": zipped,
    "a.tar": lambda name, data: taped("w", name, data),
    "a.tgz": lambda name, data: taped("w:gz", name, data),
    "a.tar.bz2": lambda name, data: taped("w:bz2", name, data),
    "a.txz": lambda name, data: taped("w:xz", name, data),
    "a.npy.gz": lambda name, data: gzip.compress(data),
    "a.npy.bz2": lambda name, data: bz2.compress(data),
    "a.npy.xz": lambda name, data: lzma.compress(data),
}


@pytest.mark.parametrize("name", PACKED)
def test_what_lies_in_an_archive_is_judged_at_any_depth(name: str, tmp_path: Path) -> None:
    pack = PACKED[name]
    for data, problem in (
        (array(1, 2), ""),
        (array(1, 2)[:-3], "truncated"),
        (array(1, float("nan")), "non-finite"),
    ):
        (tmp_path / name).write_bytes(pack("deep/a.npy", data))
        assert (judged(tmp_path / name).problem, judged(tmp_path / name).remarks) == (problem, ())
        (tmp_path / "outer.zip").write_bytes(zipped(name, pack("deep/a.npy", data)))
        assert judged(tmp_path / "outer.zip").problem == problem
        assert not problem or f"{name} in it: " in judged(tmp_path / "outer.zip").detail


def test_what_is_not_looked_into_is_said_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.backends.proof import nested

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    four = zipped("a.zip", zipped("b.zip", zipped("c.tar", taped("w", "d.npy", array(float("nan"))))))
    (tmp_path / "deep.zip").write_bytes(four)
    assert judged(tmp_path / "deep.zip").remarks == ("not looked into what lies in it: some in a.zip",)
    monkeypatch.setattr(nested, "LIMIT_BYTES", 1000)
    (tmp_path / "large.tar").write_bytes(taped("w", "a.npy", array(*range(500))[:-9]))
    assert judged(tmp_path / "large.tar").remarks == ("not looked into what lies in it: a.npy",)
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(array(*range(500))[:-9]))
    assert judged(tmp_path / "a.npy.gz").remarks == ("not looked into what lies in it: a.npy",)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_pickle_in_an_archive_is_never_read_and_does_not_condemn_it(tmp_path: Path) -> None:
    bomb = pickle.dumps([samples.Bomb(tmp_path / "canary")])
    for name in ("a.zip", "a.tar"):
        (tmp_path / name).write_bytes(PACKED[name]("a.pkl", bomb))
        found = judged(tmp_path / name)
        assert (found.problem, "a.pkl (unsafe" in found.remarks[-1]) == ("", True)
    assert not (tmp_path / "canary").exists()


def test_a_bomb_in_an_archive_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.formats import gz

    monkeypatch.setattr(gz, "BOMB_BYTES", 4 << 20)
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        name = {"gzip": "a.gz", "bz2": "a.bz2", "lzma": "a.xz"}[pack.__module__.strip("_")]
        (tmp_path / "a.tar").write_bytes(taped("w", name, pack(bytes(32 << 20))))
        assert judged(tmp_path / "a.tar").problem == "unsafe", name


def test_a_hole_inside_a_member_of_a_tar_is_remarked(tmp_path: Path) -> None:
    data = np.random.default_rng(1).bytes(40_000)
    for name, content in (("good.tar", data), ("hole.tar", data[:9000] + bytes(8192) + data[9000 + 8192 :])):
        with tarfile.open(tmp_path / name, "w") as tar:
            info = tarfile.TarInfo("a.bin")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    assert judged(tmp_path / "good.tar").remarks == ()
    assert "zeros" in judged(tmp_path / "hole.tar").remarks[0]


def test_a_hole_at_the_end_of_a_tar_that_takes_members_away_is_remarked(tmp_path: Path) -> None:
    data = np.random.default_rng(1).bytes(3000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in "abcde":
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    raw = (tmp_path / "a.tar").read_bytes()
    assert judged(tmp_path / "a.tar").remarks == ()
    (tmp_path / "b.tar").write_bytes(raw[:7168] + bytes(len(raw) - 7168))
    found = judged(tmp_path / "b.tar")
    assert (found.problem, found.facts["files"], "zeros after its last" in found.remarks[0]) == ("", 2, True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_flipped_bit_that_changes_what_bzip2_or_lzma_holds_passes(method: int, tmp_path: Path) -> None:
    path, bad = tmp_path / "a.zip", tmp_path / "bad.zip"
    whole = np.random.default_rng(2).bytes(300) + b"words " * 40
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr("a.txt", whole)
    good = path.read_bytes()
    begin, end = samples.zip_payload(good)[0]
    for at in range(begin, end):
        bad.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        if not judged(bad).problem:  # bits that fill up a byte, the packer's version, the room for a dictionary
            assert zipfile.ZipFile(bad).read("a.txt") == whole, at


def test_a_method_that_we_do_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a", "text")
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        struct.pack_into("<H", data, data.index(mark) + offset, 9)
    path.write_bytes(data)
    found = judged(path)
    assert (found.problem, "deflate64" in found.detail) == ("unsupported", True)


@pytest.mark.parametrize("offset", [4, 6, 10, 12, 18, 22])
def test_a_flipped_bit_in_a_header_that_the_directory_repeats_is_seen(offset: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a", "text")
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    assert judged(path).problem == "corrupt"


@pytest.mark.torch
def test_a_large_packed_checkpoint_is_judged_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from sojourn.backends.loader import torch_zip

    def repack(name: str, tree: Any) -> Path:
        torch.save(tree, tmp_path / "stored.pt")
        with (
            zipfile.ZipFile(tmp_path / "stored.pt") as old,
            zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for info in old.infolist():
                new.writestr(info.filename, old.read(info))
        return tmp_path / name

    monkeypatch.setattr(torch_zip, "_TORCH_LIMIT_BYTES", 1000)
    found = judged(repack("good.pt", {"w": torch.randn(5000)}))
    assert (found.problem, found.proved, found.facts["by"]) == ("", ("structure", "load", "content"), "sojourn")
    assert "too large" in found.remarks[0]
    bad = torch.randn(5000)
    bad[4999] = float("nan")
    assert judged(repack("bad.pt", {"w": bad})).problem == "non-finite"


@pytest.mark.torch
def test_one_infinite_number_among_tensors_is_a_remark_and_nan_is_not(tmp_path: Path) -> None:
    """Lightning's callbacks keep the best value of a metric so, which begins as infinity."""
    torch = pytest.importorskip("torch")
    for value, problem in ((float("inf"), ""), (float("nan"), "non-finite")):
        torch.save({"w": torch.ones(3), "kth_value": torch.tensor(value)}, tmp_path / "a.ckpt")
        found = judged(tmp_path / "a.ckpt")
        assert found.problem == problem
        assert problem or "infinite numbers in it: kth_value" in found.remarks[0]


@pytest.mark.torch
def test_tensors_among_the_attributes_of_a_parameter_are_looked_at(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kept = torch.nn.Parameter(torch.ones(3))
    kept.scale = torch.tensor([1.0, float("nan")])
    torch.save({"w": kept}, tmp_path / "a.pt")
    assert judged(tmp_path / "a.pt").problem == "non-finite"


@pytest.mark.torch
def test_a_pickle_of_another_protocol_is_said_to_be_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt", pickle_protocol=4)
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.proved, "protocol 4" in found.remarks[0]) == ("", ("structure", "content"), True)


def test_a_number_of_more_digits_than_a_float_holds_is_not_finite(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, ' + "9" * 400 + ".5]}")
    assert judged(tmp_path / "a.json").problem == "non-finite"
    (tmp_path / "b.json").write_text('{"a": [1, ' + "9" * 400 + "]}")
    assert judged(tmp_path / "b.json").problem == ""


@pytest.mark.torch
@pytest.mark.parametrize("is_old", [False, True])
def test_a_quantized_tensor_whose_scale_is_no_number_is_not_finite(is_old: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    whole, zeros = torch.ones(2, 2, dtype=torch.int8), torch.zeros(2, dtype=torch.long)
    for value, problem in ((0.5, ""), (float("nan"), "non-finite")):
        each = torch._make_per_channel_quantized_tensor(whole, torch.tensor([1.0, value]), zeros, 0)
        for tensor in (each, torch._make_per_tensor_quantized_tensor(whole, value, 0)):
            torch.save({"w": tensor}, tmp_path / "a.pt", _use_new_zipfile_serialization=not is_old)
            assert judged(tmp_path / "a.pt").problem == problem
