"""What lies inside others: archives in archives are named, packed entries judged in pieces, odd headers seen."""

import io
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.backends.client.judge import Judgement, judge
from tests.backends import samples


def judged(path: Path) -> Judgement:
    return judge(str(path), path.name)


def test_an_archive_inside_another_is_named_as_not_looked_into(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as z:
        z.writestr("a", "text")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.writestr("deep/in.zip", inner.getvalue())
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("deep/in.zip")
        info.size = len(inner.getvalue())
        tar.addfile(info, io.BytesIO(inner.getvalue()))
    for name in ("a.zip", "a.tar"):
        found = judged(tmp_path / name)
        assert (found.problem, [r for r in found.remarks if "deep/in.zip" in r]) != ("", []), name
        assert "not looked into" in found.remarks[-1]


def test_a_hole_inside_a_member_of_a_tar_is_remarked(tmp_path: Path) -> None:
    data = np.random.default_rng(1).bytes(40_000)
    for name, content in (("good.tar", data), ("hole.tar", data[:9000] + bytes(8192) + data[9000 + 8192 :])):
        with tarfile.open(tmp_path / name, "w") as tar:
            info = tarfile.TarInfo("a.bin")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    assert judged(tmp_path / "good.tar").remarks == ()
    assert "zeros" in judged(tmp_path / "hole.tar").remarks[0]


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
        assert problem or "infinite: kth_value" in found.remarks[0]


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
    assert (found.problem, "protocol 4" in found.detail) == ("unsafe", True)


def test_a_number_of_more_digits_than_a_float_holds_is_not_finite(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, ' + "9" * 400 + ".5]}")
    assert judged(tmp_path / "a.json").problem == "non-finite"
    (tmp_path / "b.json").write_text('{"a": [1, ' + "9" * 400 + "]}")
    assert judged(tmp_path / "b.json").problem == ""
