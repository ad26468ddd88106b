"""Manifests: what is listed is what was read, and what differs is named."""

import hashlib
import os
from pathlib import Path
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.wire import manifest


def row(path: str, data: bytes = b"", **more: Any) -> Dict[str, Any]:
    return dict({"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}, **more)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_file_is_hashed_whole(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    assert manifest.sha256_file(str(tmp_path / "f")) == (size, hashlib.sha256(data).hexdigest())


def test_a_link_is_not_followed_when_it_must_not_be(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to("f")
    assert manifest.sha256_file(str(tmp_path / "link"))[0] == 1
    with pytest.raises(OSError):
        manifest.sha256_file(str(tmp_path / "link"), follow=False)


@pytest.mark.parametrize("path", ["a", "a/b", "a b/\u00e9\n", "...", "..a", "-x", "a/.b"])
def test_a_safe_path_is_safe(path: str) -> None:
    assert manifest.is_safe(path)


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "..", "../a", "a/..", "a/../b", "a//b", "a/", ".", "./a", "a/./b", "a\0"]
)
def test_an_unsafe_path_is_not(path: str) -> None:
    assert not manifest.is_safe(path)


@given(st.text())
def test_no_safe_path_leaves_its_root(path: str) -> None:
    if manifest.is_safe(path):
        joined = os.path.normpath(os.path.join("/root/of/run", path))
        assert joined == os.path.join("/root/of/run", path)


def test_the_digest_names_the_content_alone() -> None:
    rows = [row("b", b"2"), row("a", b"1")]
    one = manifest.document("r", 1, "now", rows, ["x"])
    other = manifest.document("other", 7, "later", reversed(rows), [], [{"path": "z", "why": "no"}])
    assert one["digest"] == other["digest"] and [f["path"] for f in one["files"]] == ["a", "b"]
    for changed in ([row("a", b"1")], [row("a", b"1"), row("b", b"3")], [row("a", b"1"), row("c", b"2")]):
        assert manifest.document("r", 1, "now", changed, [])["digest"] != one["digest"]
    role = [row("b", b"2", role="log"), row("a", b"1")]
    assert manifest.document("r", 1, "now", role, [])["digest"] != one["digest"]


def test_what_differs_is_named() -> None:
    ours = [row("same", b"1"), row("changed", b"1"), row("extra", b"1")]
    theirs = [row("same", b"1"), row("changed", b"2"), row("absent", b"1")]
    assert manifest.differences(ours, theirs) == [
        ("absent", "missing"),
        ("changed", "differs"),
        ("extra", "unexpected"),
    ]
    assert manifest.differences(ours, ours) == []


def test_a_walk_finds_files_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    for name in ("a", "d/b", "d/e/c", "d/line\nbreak"):
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dlink").symlink_to("d")
    os.mkfifo(str(tmp_path / "pipe"))
    assert manifest.walk(str(tmp_path)) == ["a", "d/b", "d/e/c", "d/line\nbreak"]


def test_a_folder_that_cannot_be_read_does_not_look_empty(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        manifest.walk(str(tmp_path / "nothing"))


def test_a_pipe_a_device_and_a_folder_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path):
        with pytest.raises(OSError):
            manifest.sha256_file(str(path))


def test_a_file_that_grows_is_read_up_to_the_size_it_had(tmp_path: Path) -> None:
    path = tmp_path / "grows"
    path.write_bytes(b"a" * (1 << 20))

    def grow(_: int) -> None:
        with path.open("ab") as f:
            f.write(b"b" * (1 << 20))

    expected = (1 << 20, hashlib.sha256(b"a" * (1 << 20)).hexdigest())
    assert manifest.sha256_file(str(path), tick=grow) == expected


@pytest.mark.parametrize("value", ["../../../.bashrc", "a" * 63, "A" * 64, "a" * 64 + "\n", "", None, 7, b"a" * 64])
def test_what_could_name_a_path_is_no_digest(value: Any) -> None:
    assert not manifest.is_digest(value) and manifest.is_digest("0123456789abcdef" * 4)


def test_what_stands_in_and_what_is_gone_count_in_the_digest() -> None:
    plain = manifest.document("r", 1, "now", [row("a", b"1")], [], earlier=[], gone=[], superseded=3)
    assert plain["digest"] == manifest.roster_digest(plain["files"])
    more = [dict(plain, earlier=[row("a", b"0")]), dict(plain, gone=[row("b", b"0")])]
    assert len({plain["digest"], *map(manifest.digest_of, more)}) == 3
    assert manifest.digest_of(dict(more[0], at="later")) == manifest.digest_of(more[0])
