"""`stage`: real trees between two real disks of this machine, whole, and copied once."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from sojourn.box.stage.records import Work
from sojourn.cli.show import stage as show
from sojourn.verbs.datasets.stage import BadTarget, NoSource, NothingGained
from tests.lab import machine_faults
from tests.verbs.conftest import World
from tests.verbs.staging import contents, many, stage

pytest_plugins = ["tests.verbs.stage_fixtures"]


def test_a_tree_is_copied_whole_with_odd_names_links_modes_and_empty_folders(
    world: World, slow: Path, fast: Path
) -> None:
    odd = os.fsencode(slow)
    for name in (b"a b", b"new\nline", b"bad\xff", b"-rf", b"quote'\"", "ü".encode()):
        with open(os.path.join(odd, name), "wb") as file:
            file.write(name)
    (slow / "empty").mkdir()
    (slow / "link").symlink_to("a/1.txt")
    (slow / "dangling").symlink_to("a/nothing")
    (slow / "a/0.txt").chmod(0o754)
    answer = stage(world, slow, fast / "x")
    assert contents(fast / "x") == contents(slow)
    assert (answer.what, answer.exit_status, answer.files, answer.copied_files) == ("staged", 0, 47, 47)
    assert (
        answer.bytes
        == answer.copied_bytes
        == sum(p.stat().st_size for p in slow.rglob("*") if not p.is_symlink() and p.is_file())
    )
    assert not os.path.lexists(fast / ".x.sojourn-stage/tree")
    text = " ".join(" ".join(show.lines(answer, 80)).split())
    assert "read back and compared by SHA-256" in text and "a restart deletes it" in text
    json.dumps(answer.as_json())


def test_a_second_call_copies_nothing_and_a_change_copies_only_what_changed(
    world: World, slow: Path, fast: Path
) -> None:
    first = stage(world, slow, fast / "x")
    inode = (fast / "x").stat().st_ino
    again = stage(world, slow, fast / "x")
    assert (again.what, again.copied_files, again.kept_files) == ("unchanged", 0, 41)
    assert again.digest == first.digest and (fast / "x").stat().st_ino == inode
    (slow / "a/3.txt").write_text("new")
    (slow / "a/4.txt").unlink()
    changed = stage(world, slow, fast / "x")
    assert (changed.what, changed.copied_files, changed.kept_files) == ("staged", 1, 39)
    assert contents(fast / "x") == contents(slow) and changed.digest != first.digest
    assert stage(world, slow, fast / "x").what == "unchanged"
    assert sorted(os.listdir(fast)) == [".x.sojourn-stage", "x"]


def test_damage_of_the_same_size_and_time_is_repaired_by_the_next_call(world: World, slow: Path, fast: Path) -> None:
    stage(world, slow, fast / "x")
    hurt = fast / "x/a/b/data.bin"
    before = hurt.stat()
    with hurt.open("r+b") as file:
        file.seek(1 << 20)
        file.write(bytes(100))
    os.utime(hurt, ns=(before.st_atime_ns, before.st_mtime_ns))
    answer = stage(world, slow, fast / "x")
    assert (answer.what, answer.copied_files) == ("staged", 1) and contents(fast / "x") == contents(slow)


def test_rehash_finds_a_source_that_changed_under_the_same_size_and_time(world: World, slow: Path, fast: Path) -> None:
    stage(world, slow, fast / "x")
    work = Work(str(fast / "x"))
    before = (slow / "a/7.txt").stat()
    (slow / "a/7.txt").write_text("X\n" * 7)
    os.utime(slow / "a/7.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    # A file system without ctime of its own: the record gets the one that the file has now.
    now = (slow / "a/7.txt").stat().st_ctime_ns
    head, *lines = map(json.loads, Path(work.index).read_text().splitlines())
    for line in lines:
        if line[0][0] == "a/7.txt":
            line[0][4] = now
    Path(work.index).write_text("".join(json.dumps(line) + "\n" for line in [head, *lines]))
    assert stage(world, slow, fast / "x").what == "unchanged"
    assert stage(world, slow, fast / "x", rehash=True).copied_files == 1
    assert contents(fast / "x") == contents(slow)


def test_holes_stay_holes_and_need_no_room(world: World, slow: Path, tmp_path: Path) -> None:
    with machine_faults.disk(tmp_path, 16) as point:
        with open(slow / "sparse", "wb") as file:
            file.seek(100 << 20)
            file.write(b"end")
            file.truncate(200 << 20)
        assert stage(world, slow, point / "x").what == "staged"
        assert (point / "x/sparse").stat().st_blocks * 512 <= 64 << 10
        assert contents(point / "x") == contents(slow)


def test_pipes_and_sockets_are_named_and_left_out(world: World, slow: Path, fast: Path) -> None:
    os.mkfifo(slow / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(slow / "s"))
        answer = stage(world, slow, fast / "x")
    assert [row["path"] for row in answer.left_out] == ["pipe", "s"] and answer.what == "staged"
    assert not (fast / "x/pipe").exists() and "left out" in "\n".join(show.lines(answer, 100))


@pytest.mark.parametrize("leads", ["../outside", "/etc/passwd"])
def test_a_link_that_leads_out_is_named_and_nothing_is_staged(world: World, slow: Path, fast: Path, leads: str) -> None:
    (slow / "a/out").symlink_to("../" + leads if leads.startswith(".") else leads)
    answer = stage(world, slow, fast / "x")
    assert (answer.what, answer.exit_status) == ("incomplete", 1)
    assert answer.problems == ({"path": "a/out", "why": "a link that leads out of the source"},)
    assert not (fast / "x").exists()


def test_a_single_file_is_staged(world: World, slow: Path, fast: Path) -> None:
    answer = stage(world, slow / "a/b/data.bin", fast / "one.bin")
    assert (answer.what, answer.files) == ("staged", 1)
    assert (fast / "one.bin").read_bytes() == (slow / "a/b/data.bin").read_bytes()
    assert stage(world, slow / "a/b/data.bin", fast / "one.bin").what == "unchanged"
    (slow / "a/b/data.bin").write_bytes(b"new")
    assert stage(world, slow / "a/b/data.bin", fast / "one.bin").copied_files == 1
    assert (fast / "one.bin").read_bytes() == b"new"


def test_an_empty_folder_is_staged(world: World, tmp_path: Path, slow: Path, fast: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (fast / "x").mkdir()  # an empty one may stand there
    answer = stage(world, tmp_path / "nothing", fast / "x")
    assert (answer.what, answer.files) == ("staged", 0) and os.listdir(fast / "x") == []
    assert stage(world, tmp_path / "nothing", fast / "x").what == "unchanged"


def test_what_cannot_be_right_is_refused_with_nothing_written(
    world: World, slow: Path, fast: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoSource, match="No such file") as no:
        stage(world, tmp_path / "missing", fast / "x")
    assert no.value.exit_status == 2
    with pytest.raises(NothingGained, match="on the same disk") as gain:
        stage(world, slow, tmp_path / "x")
    assert gain.value.exit_status == 2 and gain.value.next.endswith("--any-disk")
    with pytest.raises(BadTarget, match="lies in"):
        stage(world, slow, slow / "x")
    with pytest.raises(BadTarget, match="root of a disk"):
        stage(world, slow, Path("/dev/shm"))
    (fast / "x").mkdir()
    (fast / "x/theirs").write_text("precious")
    with pytest.raises(BadTarget, match="not a copy that `stage` made"):
        stage(world, slow, fast / "x")
    assert (fast / "x/theirs").read_text() == "precious"
    assert stage(world, slow, tmp_path / "here", any_disk=True).what == "staged"


def test_records_that_another_user_planted_are_not_used(world: World, slow: Path, fast: Path) -> None:
    machine_faults.need_root()
    work = Work(str(fast / "x"))
    os.mkdir(work.path)
    os.chown(work.path, 65534, -1)
    with pytest.raises(BadTarget, match="belongs to somebody else"):
        stage(world, slow, fast / "x")
    os.rmdir(work.path)
    os.symlink(slow, work.path)
    with pytest.raises(BadTarget, match="belongs to somebody else"):
        stage(world, slow, fast / "x")
    assert not (slow / "job.json").exists() and not (fast / "x").exists()


def test_what_others_put_into_a_copy_is_kept_from_being_replaced(world: World, slow: Path, fast: Path) -> None:
    stage(world, slow, fast / "x")
    (fast / "x/a/labels.cache").write_text("made by a trainer")
    with pytest.raises(BadTarget, match=r"also holds a/labels\.cache"):
        stage(world, slow, fast / "x")  # it is the source, and more than that
    (slow / "a/1.txt").write_text("new")
    with pytest.raises(BadTarget, match=r"also holds a/labels\.cache"):
        stage(world, slow, fast / "x")
    assert (fast / "x/a/labels.cache").exists()
    assert (fast / "x/a/1.txt").read_text() == "1\n"


@pytest.mark.campaign
def test_many_small_files_go_in_several_streams(world: World, slow: Path, fast: Path) -> None:
    many(slow, 8_000)
    answer = stage(world, slow, fast / "x", streams=8)
    assert answer.files == 8_041 and contents(fast / "x") == contents(slow)
    assert stage(world, slow, fast / "x").copied_files == 0
