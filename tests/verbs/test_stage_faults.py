"""`stage` that is killed, cut off or stopped, on full disks, from sources that change or cannot be read."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.box.stage import work as worker
from sojourn.box.stage.records import Work
from sojourn.cli.show import stage as show
from sojourn.verbs.datasets import stage as verb
from sojourn.verbs.datasets.stage import NoRoom, StageFailed
from tests.box.rig import until
from tests.lab import machine_faults
from tests.verbs.conftest import World
from tests.verbs.staging import begin, contents, held_midway, many, stage, state

pytest_plugins = ["tests.verbs.stage_fixtures"]


def test_killed_half_way_it_is_never_taken_for_whole_and_the_same_call_continues(
    world: World, slow: Path, fast: Path
) -> None:
    many(slow, 6000)
    work = begin(world, slow, fast / "x")
    os.kill(held_midway(work), signal.SIGKILL)
    until(lambda: not work.is_held())
    assert state(world, slow, fast / "x") == "dead"
    assert not (fast / "x").exists() and Path(work.tree).is_dir()
    answer = stage(world, slow, fast / "x")
    assert answer.what == "staged" and answer.kept_files >= 50
    assert answer.kept_files + answer.copied_files == answer.files == 6041
    assert contents(fast / "x") == contents(slow)


@pytest.mark.campaign
def test_killed_within_a_large_file_it_continues_where_that_ended(world: World, slow: Path, fast: Path) -> None:
    big = os.urandom(1 << 20) * 300
    (slow / "big").write_bytes(big)
    work = begin(world, slow, fast / "x")
    tree = Path(work.tree)
    until(lambda: (tree / "big").exists() and (tree / "big").stat().st_size > 20 << 20)
    os.kill(int(work.read("process.json")["pid"]), signal.SIGKILL)
    until(lambda: not work.is_held())
    half = (tree / "big").stat()
    assert half.st_size < len(big)
    assert stage(world, slow, fast / "x").what == "staged"
    assert (fast / "x/big").stat().st_ino == half.st_ino and (fast / "x/big").read_bytes() == big


def test_killed_just_after_the_rename_the_next_call_finds_it_whole(world: World, slow: Path, fast: Path) -> None:
    stage(world, slow, fast / "x")
    work = Work(str(fast / "x"))
    os.rename(work.index, work.next_index)  # as it stands before its record is named
    shutil.copytree(fast / "x", work.tree)
    assert stage(world, slow, fast / "x").what == "unchanged"
    assert not os.path.lexists(work.tree) and os.path.exists(work.index)


@pytest.mark.campaign
def test_a_cut_line_and_a_client_that_ends_do_not_stop_it(world: World, slow: Path, fast: Path) -> None:
    many(slow, 6000)
    work = begin(world, slow, fast / "x")
    pid = held_midway(work)
    threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()
    calls = 0

    def cut_for_a_while(seconds: float) -> None:
        nonlocal calls
        calls += 1
        world.transport.is_cut = calls in (1, 2)
        time.sleep(min(seconds, 0.2))

    world.ctx.sleep = cut_for_a_while
    answer = stage(world, slow, fast / "x")
    assert (answer.what, answer.copied_files) == ("staged", 6041)  # one process did it all: it was joined
    assert any("goes on by itself" in line for line in world.said)
    assert contents(fast / "x") == contents(slow)


@pytest.mark.campaign
def test_stop_ends_the_process_and_keeps_what_it_copied(world: World, slow: Path, fast: Path) -> None:
    many(slow, 6000)
    work = begin(world, slow, fast / "x")
    held_midway(work)
    answer = verb.stop(world.ctx, str(slow), str(fast / "x"))
    assert answer.what == "stopped" and not work.is_held() and not (fast / "x").exists()
    assert verb.stop(world.ctx, str(slow), str(fast / "x")).what == "idle"
    assert stage(world, slow, fast / "x").kept_files >= 50


@pytest.mark.campaign
def test_another_source_for_the_same_target_is_refused_while_it_is_copied(
    world: World, slow: Path, fast: Path, tmp_path: Path
) -> None:
    many(slow, 6000)
    other = tmp_path / "other"
    other.mkdir()
    pid = held_midway(begin(world, slow, fast / "x"))
    try:
        with pytest.raises(verb.StageBusy, match="just being copied"):
            stage(world, other, fast / "x")
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.campaign
def test_a_file_that_changes_once_meanwhile_is_copied_as_it_is_in_the_end(world: World, slow: Path, fast: Path) -> None:
    many(slow, 6000)
    work = begin(world, slow, fast / "x")
    pid = held_midway(work)
    (slow / "a/b/data.bin").write_bytes(b"another")
    (slow / "many/00000").unlink()
    (slow / "added").write_text("late")
    os.kill(pid, signal.SIGCONT)
    assert stage(world, slow, fast / "x").what in ("staged", "unchanged")
    assert contents(fast / "x") == contents(slow)


def test_a_source_that_changes_all_the_time_is_told_and_not_staged(world: World, slow: Path, fast: Path) -> None:
    over = threading.Event()

    def write() -> None:
        with open(slow / "a/b/data.bin", "ab") as file:
            while not over.wait(0.002):
                file.write(b"more")
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        answer = stage(world, slow, fast / "x")
    finally:
        over.set()
        writer.join()
    assert (answer.what, answer.exit_status, answer.ok) == ("changing", 1, False)
    assert {row["path"] for row in answer.problems} == {"a/b/data.bin"} and not (fast / "x").exists()
    assert "the source changed each time" in "\n".join(show.lines(answer, 100))


def test_a_disk_without_room_is_refused_before_anything_is_copied(world: World, slow: Path, tmp_path: Path) -> None:
    with machine_faults.disk(tmp_path, 16) as point:
        (slow / "big").write_bytes(os.urandom(20 << 20))
        with pytest.raises(NoRoom, match=r"23\.\d MiB and \d+ inodes, and \d+\.\d MiB and .* Nothing was copied") as no:
            stage(world, slow, point / "x")
        assert no.value.exit_status == 5 and not (point / "x").exists()
        assert not (point / ".x.sojourn-stage/tree").exists()


def test_a_disk_without_inodes_is_refused_though_it_has_bytes(world: World, slow: Path, tmp_path: Path) -> None:
    with machine_faults.disk(tmp_path, 32, inodes=64) as point:
        many(slow, 200)
        with pytest.raises(NoRoom, match="Nothing was copied"):
            stage(world, slow, point / "x")


@pytest.mark.campaign
def test_a_disk_that_others_fill_meanwhile_gets_its_room_back(world: World, slow: Path, tmp_path: Path) -> None:
    with machine_faults.disk(tmp_path, 48) as point:
        many(slow, 6000)
        pid = held_midway(begin(world, slow, point / "x"))
        with pytest.raises(OSError), open(point / "others", "wb", buffering=0) as file:
            while True:
                assert file.write(bytes(1 << 20))
        os.kill(pid, signal.SIGCONT)
        with pytest.raises((NoRoom, StageFailed), match="unfinished copy was removed|Nothing was copied"):
            stage(world, slow, point / "x")
        (point / "others").unlink()
        assert stage(world, slow, point / "x").what == "staged"
        assert contents(point / "x") == contents(slow)


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_staged(fast: Path) -> None:
    machine_faults.need_root()
    source, target = fast / "source", fast / "out/x"
    (source / "shut").mkdir(parents=True)
    target.parent.mkdir()
    (source / "good").write_text("good")
    (source / "secret").write_text("x")
    (source / "secret").chmod(0)
    work = Work(str(target))
    os.mkdir(work.path)
    work.write("job.json", {"source": str(source), "token": "t", "streams": 2})
    os.chown(fast, 65534, -1)
    for path in (source, target.parent, *target.parent.rglob("*"), *target.parent.rglob(".*/*")):
        os.chown(path, 65534, -1)
    assert _as_nobody(lambda: worker.main([str(target)])) == 0
    end = work.read("end.json")
    assert (end["what"], end["problems"]) == ("incomplete", [{"path": "secret", "why": "Permission denied"}])
    (source / "shut").chmod(0)
    assert _as_nobody(lambda: worker.main([str(target)])) == 0
    assert work.read("end.json")["problems"] == [{"path": "shut", "why": "Permission denied"}]
    assert not target.exists()


def _as_nobody(act: Callable[[], int]) -> int:
    """`act` in a child without rights; its exit status."""
    pid = os.fork()
    if not pid:
        rc = 99
        try:
            os.setgid(65534)
            os.setuid(65534)
            rc = act()
        finally:
            os._exit(rc)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
