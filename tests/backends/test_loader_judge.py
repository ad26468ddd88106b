"""Content before name: what stands in for an artifact is said to be that, and nothing unknown is condemned."""

from pathlib import Path

import pytest

from sojourn.backends.proof.judge import FACTS_BYTES, judge_file
from tests.backends import samples

NAMES = ["best.pt", "model.safetensors", "a.npy", "a.npz", "metrics.json"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "data, words",
    [
        (b"<!DOCTYPE html><html><body>Please log in", "a web page"),
        (b"\n <HTML>\n404", "a web page"),
        (b"\xef\xbb\xbf<html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n", "git-lfs"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "object store"),
        (b"\x1f\x8b\x08\x00rest", "gzip"),
        (b"\x89PNG\r\n\x1a\nrest", "PNG"),
        (b"a" * 257 + b"ustar\x0000" + b"b" * 300, "tar archive"),
    ],
)
def test_what_stands_in_for_an_artifact_is_a_mismatch_and_named(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    found = judge_file(str(path), name)
    assert found.problem == "mismatch"
    assert words in found.detail


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_zeros_is_a_hole_not_an_artifact(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(3 << 20))
    assert judge_file(str(path), name).problem == "corrupt"
    assert "zero bytes" in judge_file(str(path), name).detail


@pytest.mark.parametrize("name", ["train.log", "rows.dat", "README", "weights.bin", "x.tar.zst", "empty.txt"])
def test_an_unknown_type_is_named_unknown_and_not_condemned(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"" if name.startswith("empty") else b"step 1 loss 0.5\n" * 50)
    found = judge_file(str(path), name)
    assert (found.kind, found.problem, found.proved) == ("unknown", "", ())
    assert "unknown format" in found.remarks[0]


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.onnx", "weights.h5", "notes.txt", "best.pt", "a.csv", "x.tar"]
)
def test_a_pointer_that_was_never_fetched_is_said_to_be_one_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n")
    found = judge_file(str(tmp_path / name), name)
    assert (found.problem, "git-lfs" in found.detail) == ("mismatch", True)


def test_a_web_page_is_no_model_and_may_be_a_web_page(tmp_path: Path) -> None:
    for name, problem in (("model.bin", "mismatch"), ("model.onnx", "mismatch"), ("report.html", ""), ("log.txt", "")):
        (tmp_path / name).write_bytes(b"<!doctype html><html><body>Please log in")
        assert judge_file(str(tmp_path / name), name).problem == problem, name


def test_a_torch_file_may_bear_the_names_that_people_give_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name in ("a.pth.tar", "pytorch_model.bin", "a.zip", "a.pkl", "a"):
        samples.write_torch(str(tmp_path / name))
        found = judge_file(str(tmp_path / name), name)
        assert (found.kind, found.problem) == ("torch_zip", ""), name
    whole = (tmp_path / "pytorch_model.bin").read_bytes()
    (tmp_path / "cut.bin").write_bytes(whole[: len(whole) // 2])
    assert judge_file(str(tmp_path / "cut.bin"), "cut.bin").problem == "truncated"


def test_a_zip_of_arrays_may_be_named_zip(tmp_path: Path) -> None:
    samples.write_npz(str(tmp_path / "a.npz"))
    (tmp_path / "a.npz").rename(tmp_path / "a.zip")
    assert (
        judge_file(str(tmp_path / "a.zip"), "a.zip").kind,
        judge_file(str(tmp_path / "a.zip"), "a.zip").problem,
    ) == (
        "npz",
        "",
    )


def test_the_name_counts_in_any_case_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "data.npy.d"
    path.mkdir()
    samples.write_json(str(path / "METRICS.JSON"))
    assert judge_file(str(path / "METRICS.JSON"), "data.npy.d/METRICS.JSON").kind == "json"


def test_facts_are_bounded(tmp_path: Path) -> None:
    import json

    path = tmp_path / "a.json"
    path.write_text(json.dumps({"k" * 190 + str(n): n for n in range(5000)}))
    found = judge_file(str(path), path.name)
    assert found.problem == ""
    assert len(json.dumps(found.facts)) < FACTS_BYTES


def test_a_file_that_is_gone_raises_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        judge_file(str(tmp_path / "a.pt"), "a.pt")
