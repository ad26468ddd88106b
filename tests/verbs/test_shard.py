"""Many small files become tar shards that WebDataset reads: nothing torn apart, nothing silently left behind."""

import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.store.snapshot import BadTree
from sojourn.verbs.datasets.shard import INDEX, NothingToShard, SameName, Sharded, ShardsTaken, shard
from sojourn.wire import manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """30 samples of two files, in two folders with dots in their names."""
    for number in range(30):
        place = tmp_path / f"train/part.{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:04d}.jpg").write_bytes(bytes([number]) * 900)
        (place / f"{number:04d}.seg.json").write_text(json.dumps({"label": number}))
    return tmp_path / "train"


def members(made: Sharded) -> list[list[str]]:
    """The names in each shard, in order."""
    return [tarfile.open(os.path.join(made.folder, one.name)).getnames() for one in made.shards]


def test_every_sample_is_whole_in_one_shard_and_its_files_follow_each_other(folder: Path) -> None:
    made = shard(str(folder), shard_bytes=20_000)
    names = members(made)
    assert (len(names) > 2, made.samples, made.files, made.left_out) == (True, 30, 60, ())
    for inside in names:
        keys = [name.replace(".jpg", "").replace(".seg.json", "") for name in inside]
        assert keys[0::2] == keys[1::2]
    assert sorted(sum(names, [])) == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file()
    )


def test_what_stands_in_the_shards_is_what_stands_in_the_files(folder: Path) -> None:
    made = shard(str(folder), shard_bytes=20_000)
    for one in made.shards:
        path = os.path.join(made.folder, one.name)
        assert manifest.sha256_file(path) == (one.bytes, one.sha256)
        with tarfile.open(path) as tar:
            for member in tar:
                data = tar.extractfile(member)
                assert data is not None
                assert data.read() == (folder / member.name).read_bytes()


def test_the_same_folder_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = shard(str(folder), to=str(tmp_path / "a"), shard_bytes=20_000)
    os.utime(folder / "part.0/0000.jpg")
    assert shard(str(folder), to=str(tmp_path / "b"), shard_bytes=20_000).shards == first.shards


def test_a_second_call_keeps_whole_shards_and_makes_damaged_and_missing_ones_again(folder: Path) -> None:
    first = shard(str(folder), shard_bytes=20_000)
    paths = [Path(first.folder, one.name) for one in first.shards]
    damaged = bytearray(paths[0].read_bytes())
    damaged[700] ^= 1
    paths[0].write_bytes(damaged)
    paths[1].unlink()
    again = shard(str(folder), shard_bytes=20_000)
    assert (again.shards, again.kept) == (first.shards, len(paths) - 2)
    assert manifest.sha256_file(str(paths[0]))[1] == first.shards[0].sha256


def test_shards_of_other_contents_and_foreign_files_are_not_touched(folder: Path, tmp_path: Path) -> None:
    made = shard(str(folder))
    before = Path(made.folder, made.shards[0].name).read_bytes()
    (folder / "part.0/0000.jpg").write_bytes(b"new")
    with pytest.raises(ShardsTaken, match="other contents"):
        shard(str(folder))
    assert Path(made.folder, made.shards[0].name).read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("all of it")
    with pytest.raises(ShardsTaken, match="other files"):
        shard(str(folder), to=str(tmp_path / "mine"))
    with pytest.raises(ShardsTaken, match="lies in the folder"):
        shard(str(folder), to=str(folder / "shards"))
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_what_webdataset_would_skip_is_named(folder: Path) -> None:
    (folder / "README").write_text("no extension")
    (folder / "part.0/.DS_Store").write_text("")
    (folder / "__meta__").mkdir()
    (folder / "__meta__/info.json").write_text("{}")
    os.mkfifo(folder / "part.0/pipe.jpg")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "s.jpg"))
    listening.close()
    (folder / "loose.jpg").symlink_to("nothing.jpg")
    made = shard(str(folder))
    left = ["README", "__meta__/info.json", "loose.jpg", "part.0/.DS_Store", "part.0/pipe.jpg", "s.jpg"]
    assert ([path for path, _ in made.left_out], made.files) == (left, 60)


def test_a_link_is_packed_as_the_file_that_it_leads_to_and_none_leads_out(folder: Path, tmp_path: Path) -> None:
    (folder / "again").symlink_to("part.1")
    (folder / "best.jpg").symlink_to("again/0001.jpg")
    made = shard(str(folder))
    with tarfile.open(os.path.join(made.folder, made.shards[0].name)) as tar:
        found = tar.getmember("best.jpg")
        data = tar.extractfile(found)
        assert data is not None
        assert (found.isreg(), data.read()) == (True, bytes([1]) * 900)
    (tmp_path / "secret.jpg").write_bytes(b"not part of it")
    (folder / "out.jpg").symlink_to("../secret.jpg")
    with pytest.raises(BadTree, match=r"out\.jpg"):
        shard(str(folder), to=str(tmp_path / "b"))


def test_strange_names_keep_their_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ("-rf.jpg", "line\nbreak.jpg", "Übung 1.jpg", "x" * 200 + ".jpg"):
        (folder / name).write_text(name)
    made = shard(str(folder))
    with tarfile.open(os.path.join(made.folder, made.shards[0].name)) as tar:
        assert {member.name for member in tar} == set(os.listdir(folder))
    (folder / os.fsdecode(b"\xff.jpg")).write_text("x")
    with pytest.raises(BadTree, match="not UTF-8"):
        shard(str(folder), to=str(tmp_path / "b"))


def test_two_files_that_webdataset_cannot_tell_apart_are_refused(folder: Path) -> None:
    (folder / "part.0/0000.JPG").write_text("another")
    with pytest.raises(SameName, match="0000"):
        shard(str(folder))


def test_a_folder_without_samples_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README").write_text("nothing to see")
    with pytest.raises(NothingToShard):
        shard(str(tmp_path))
    assert main(["shard", str(tmp_path / "absent")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 2


def test_the_command_names_the_shards_as_webdataset_takes_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shard", str(folder), "--size", "20k", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pattern"] == f"{folder}-shards/train-{{000000..{len(said['shards']) - 1:06d}}}.tar"
    assert json.loads(Path(f"{folder}-shards", INDEX).read_text())["shards"] == said["shards"]
