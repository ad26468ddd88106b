"""What a fresh reviewer found in `stage`: stale files, files of others, and answers about another moment or job."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.ops import stage as op
from sojourn.box.stage import listing, publish, records
from sojourn.box.stage import work as worker
from sojourn.box.stage.records import Work
from sojourn.box.system import process
from sojourn.verbs.datasets import stage as verb
from sojourn.verbs.datasets.stage import BadTarget, StageBusy, StageFailed
from tests.box.rig import until
from tests.verbs.conftest import World
from tests.verbs.staging import begin, contents, stage

pytest_plugins = ["tests.verbs.stage_fixtures"]


def test_a_leftover_of_an_interrupted_copy_is_not_taken_for_a_file_that_is_kept(
    world: World, slow: Path, fast: Path
) -> None:
    stage(world, slow, fast / "x")
    tree = Path(Work(str(fast / "x")).tree)
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/1.txt").write_text("of another source")
    (tree / "a/b/data.bin").write_bytes(b"half")
    (slow / "added").write_text("new")
    assert stage(world, slow, fast / "x").what == "staged"
    assert contents(fast / "x") == contents(slow)


def _while_it_copies(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` in the worker of this process, when everything is copied and nothing has its name."""
    read_back = worker._Staging._read_back

    def acts(self: Any, *args: Any) -> Any:
        act()
        return read_back(self, *args)

    monkeypatch.setattr(worker._Staging, "_read_back", acts)


def _staged_here(source: Path, target: Path) -> dict[str, Any]:
    """The end of a job that runs in this process."""
    work = Work(str(target))
    os.makedirs(work.path, exist_ok=True)
    work.write("job.json", {"source": str(source), "token": "t", "streams": 2})
    assert worker.main([str(target)]) == 0
    return work.read("end.json")


def test_what_appears_under_the_name_during_a_first_copy_is_kept(
    slow: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appear() -> None:
        (fast / "x").mkdir()
        (fast / "x/theirs").write_text("precious")

    _while_it_copies(monkeypatch, appear)
    assert _staged_here(slow, fast / "x")["what"] == "taken"
    assert (fast / "x/theirs").read_text() == "precious"


def test_what_others_write_into_a_copy_during_an_update_is_kept(
    slow: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _staged_here(slow, fast / "x")["what"] == "staged"
    (slow / "a/1.txt").write_text("new")
    _while_it_copies(monkeypatch, lambda: (fast / "x/a/labels.cache").write_text("precious"))
    end = _staged_here(slow, fast / "x")
    assert (end["what"], end["message"]) == ("taken", "a/labels.cache")
    assert (fast / "x/a/labels.cache").read_text() == "precious"


def test_what_others_write_at_the_very_exchange_is_kept(
    slow: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _staged_here(slow, fast / "x")
    before = contents(fast / "x")
    (slow / "a/1.txt").write_text("new")
    exchange = publish._exchange

    def late(one: str, other: str) -> bool:
        (fast / "x/late").write_text("precious")
        return exchange(one, other)

    monkeypatch.setattr(publish, "_exchange", late)
    assert _staged_here(slow, fast / "x")["what"] == "taken"
    assert (fast / "x/late").read_text() == "precious" and contents(fast / "x").items() >= {
        path: one for path, one in before.items() if path.startswith(b"a/")
    }.items()
    (fast / "x/late").unlink()
    monkeypatch.undo()
    assert _staged_here(slow, fast / "x")["what"] == "staged"
    assert contents(fast / "x") == contents(slow)


def test_a_file_that_was_edited_in_the_copy_is_named_and_kept(world: World, slow: Path, fast: Path) -> None:
    stage(world, slow, fast / "x")
    (fast / "x/a/2.txt").write_text("edited")
    os.utime(fast / "x/a/3.txt")  # only touched: no edit
    with pytest.raises(BadTarget, match=r"also holds a/2\.txt, .* or which was edited there"):
        stage(world, slow, fast / "x")
    assert (fast / "x/a/2.txt").read_text() == "edited"
    (fast / "x/a/2.txt").unlink()  # gone is not edited
    assert stage(world, slow, fast / "x").copied_files == 1
    assert (fast / "x/a/2.txt").read_text() == (slow / "a/2.txt").read_text()


def test_a_client_that_waits_is_told_of_a_stop_and_does_not_begin_again(world: World, slow: Path, fast: Path) -> None:
    work = Work(str(fast / "x"))
    os.mkdir(work.path, 0o700)
    lock = work.lock()
    assert lock is not None
    copying = subprocess.Popen(["sleep", "600"], pass_fds=[lock])  # it stays where a job stays for hours
    os.close(lock)
    work.write("job.json", {"source": str(slow), "token": "theirs", "rehash": False})
    work.write("process.json", {"pid": copying.pid, "start": process.start_of(copying.pid)})
    answers = []

    def stop(_: float) -> None:
        answers.append(verb.stop(world.ctx, str(slow), str(fast / "x")).what)

    world.ctx.sleep = stop
    with pytest.raises(StageFailed, match="stopped by --stop"):
        stage(world, slow, fast / "x")
    assert copying.wait() == -signal.SIGTERM
    assert answers == ["stopped"] and not work.is_held() and not (fast / "x").exists()


def test_a_job_that_was_joined_does_not_answer_for_a_source_it_read_before(
    world: World, slow: Path, fast: Path
) -> None:
    begin(world, slow, fast / "x")
    work = Work(str(fast / "x"))
    until(lambda: not work.is_held() and bool(work.read("end.json")))
    end = work.read("end.json")
    os.unlink(work.under("end.json"))
    lock = work.lock()
    assert lock is not None  # as if the job were still giving it its name
    (slow / "added").write_text("new")
    locks = [lock]

    def end_it(_: float) -> None:
        if locks:
            work.write("end.json", end)
            os.close(locks.pop())

    world.ctx.sleep = end_it
    answer = stage(world, slow, fast / "x")
    assert (answer.what, answer.copied_files) == ("staged", 1)
    assert contents(fast / "x") == contents(slow)


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(str(tmp_path / "x"))
    os.mkdir(work.path)
    held = work.lock()
    assert held is not None
    with monkeypatch.context() as during:
        during.setattr(op.time, "sleep", lambda _: None)
        assert op._lock(work) is None
    timer = threading.Timer(0.2, os.close, (held,))
    timer.start()
    found = op._lock(work)
    timer.join()
    assert found is not None
    os.close(found)


def test_a_call_that_is_just_beginning_is_named_as_that(world: World, slow: Path, fast: Path) -> None:
    work = Work(str(fast / "x"))
    os.mkdir(work.path, 0o700)
    lock = work.lock()
    assert lock is not None
    try:
        with pytest.raises(StageBusy, match="just beginning"):
            stage(world, slow, fast / "x")
    finally:
        os.close(lock)


def test_a_beginning_reads_only_the_heads_of_records_and_moves_none(slow: Path, fast: Path) -> None:
    _staged_here(slow, fast / "x")
    work = Work(str(fast / "x"))
    head, _, rest = Path(work.index).read_bytes().partition(b"\n")
    os.rename(work.index, work.next_index)
    Path(work.next_index).write_bytes(head + b"\n\xff" + rest)
    assert records.is_published(work) and not os.path.exists(work.index)
    os.rename(fast / "x", fast / "y")
    (fast / "x").mkdir()
    assert not records.is_published(work)


def test_a_source_that_was_a_file_and_is_a_folder_now_is_staged(world: World, fast: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("file")
    assert stage(world, source, fast / "x").what == "staged"
    source.unlink()
    source.mkdir()
    (source / "inner").write_text("new")
    assert stage(world, source, fast / "x").what == "staged"
    assert contents(fast / "x") == contents(source)


def test_a_file_that_goes_while_its_folder_is_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "stays").write_text("")
    (tmp_path / "goes").write_text("")
    with os.scandir(tmp_path) as entries:
        seen = list(entries)
    (tmp_path / "goes").unlink()
    assert [name for name, _ in listing._statuses(iter(seen))] == ["stays"]
