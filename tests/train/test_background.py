"""Saves made by the writer process: what the training pays, what it is told, and what is left when anything dies."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import select
import signal
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer, preempt
from sojourn.train.saving import shared_memory, writer
from sojourn.train.saving.commit import Superseded
from sojourn.train.saving.saving import NotSaved
from tests.train.lives import is_alive, loaded, names, until

pytestmark = pytest.mark.skipif(not shared_memory.is_possible(), reason="only Linux has memfd")


@pytest.fixture(autouse=True)
def quiet_signals() -> Iterator[None]:
    yield
    preempt.uninstall()
    preempt.forget()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """made(**settings): a Checkpointer with a writer of its own and its state; closed when the test is over."""
    open_: list[Checkpointer] = []

    def make(size: int = 3 << 20, folder: Path = tmp_path / "ckpt", **more: Any) -> Any:
        state: dict[str, Any] = {"count": 0, "bytes": bytearray(size)}
        settings: dict[str, Any] = dict({"every_steps": 1, "background": True}, **more)
        open_.append(Checkpointer(folder=folder, state=state, **settings))
        return open_[-1], state

    yield make
    for ckpt in open_:
        try:
            ckpt.close()
        except Superseded:
            pass


def writer_of(ckpt: Any) -> int:
    """The pid of its writer process."""
    return int(ckpt._saver._background._link.process.pid)


def broken(folder: Path) -> None:
    """Nothing can be written to it."""
    folder.rename(folder.with_name("away"))
    folder.write_text("a file")


def mended(folder: Path) -> None:
    folder.unlink()
    folder.with_name("away").rename(folder)


def test_the_state_may_change_as_soon_as_step_returns(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, state = made(size=8 << 20)
    for count in range(1, 6):
        state["count"] = count
        state["bytes"][:] = bytes([count]) * (8 << 20)
        ckpt.step()
        state["bytes"][:] = bytes(8 << 20)  # what is written must be the copy
        assert ckpt.wait()
    both = ["ckpt-t000001-s00000004.pt", "ckpt-t000001-s00000005.pt"]
    until(lambda: names(tmp_path / "ckpt") == both, "older ones stay")
    for path in (tmp_path / "ckpt").glob("*.pt"):
        assert torch_zip.walk(str(path)).problems == ()
        tree = torch_zip.read_zip(str(path)).tree["state"]
        assert set(bytes(tree["bytes"])) == {tree["count"]}


def test_both_ways_of_writing_give_the_same_file(made: Callable[..., Any], tmp_path: Path) -> None:
    trees = []
    for name, background in (("here", False), ("there", True)):
        ckpt, state = made(folder=tmp_path / name, background=background)
        state["bytes"][:] = bytes(range(256)) * (3 << 12)
        random.seed(1)
        ckpt.step()
        assert ckpt.wait()
        found = torch_zip.walk(str(tmp_path / name / "ckpt-t000001-s00000001.pt"))
        trees.append([(e.name, e.offset, e.bytes) for e in found.entries])
        assert found.problems == () and found.ours
        pointer = json.loads((tmp_path / name / "latest.json").read_text())
        assert pointer["path"] == "ckpt-t000001-s00000001.pt" and len(pointer["sums_sha256"]) == 64
    assert trees[0] == trees[1]


def test_a_state_that_grows_gets_more_memory(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, state = made(size=2 << 20)
    for size in (2, 9, 30, 1):
        state["bytes"] = bytearray(b"%d" % (size % 10)) * (size << 20)
        ckpt.step()
        assert ckpt.wait()
    assert len(loaded(tmp_path / "ckpt")["bytes"]) == 1 << 20


def test_a_large_state_is_hashed_while_it_is_written(made: Callable[..., Any], tmp_path: Path) -> None:
    """Over 64 MiB: the header of the piece is written last, O_DIRECT is probed."""
    ckpt, state = made(size=70 << 20)
    state["bytes"][:: 1 << 20] = b"x" * 70
    for _ in range(2):
        ckpt.step()
        assert ckpt.wait()
    assert [torch_zip.walk(str(path)).problems for path in (tmp_path / "ckpt").glob("*.pt")] == [(), ()]
    state["bytes"] += b"more" * (4 << 20)
    ckpt.step()
    assert ckpt.wait() and loaded(tmp_path / "ckpt")["bytes"] == state["bytes"]


def test_a_large_write_that_breaks_off_is_told_and_the_next_one_is_made(
    made: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In its middle, while it is hashed: the writer may write no file of more than 40 MiB any more."""
    ckpt, state = made(size=70 << 20)
    ckpt.step()
    assert ckpt.wait()
    _, most = resource.prlimit(writer_of(ckpt), resource.RLIMIT_FSIZE)
    resource.prlimit(writer_of(ckpt), resource.RLIMIT_FSIZE, (40 << 20, most))
    ckpt.step()
    assert not ckpt.wait()
    assert "step 2 is NOT SAVED: File too large" in capsys.readouterr().err
    resource.prlimit(writer_of(ckpt), resource.RLIMIT_FSIZE, (most, most))
    state["count"] = 3
    assert ckpt.save() and loaded(tmp_path / "ckpt", 70 << 20)["count"] == 3
    assert not list((tmp_path / "ckpt").glob(".*.tmp"))


def test_a_state_that_changes_its_size_while_it_is_copied_is_an_error_and_nothing_is_written(
    made: Callable[..., Any], tmp_path: Path
) -> None:
    ckpt, state = made()
    ckpt.step()
    assert ckpt.wait()
    plan, link = ckpt._plan(False, 0.0), ckpt._saver._background
    request = {
        "path": str(tmp_path / "ckpt"),
        "token": 1,
        "keep": 1,
        "damaged": [],
        "step": 9,
        "at_s": 0.0,
        "best": False,
    }
    plan._pieces = [(name, size, lambda: memoryview(b"short")) for name, size, _ in plan._pieces]
    with pytest.raises(ValueError, match="has 5 while it is saved"):
        link.save(plan, request)
    assert not link.is_busy and names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt"]
    ckpt.step()
    assert ckpt.wait() and names(tmp_path / "ckpt")[-1] == "ckpt-t000001-s00000002.pt"


def test_with_wait_no_more_steps_are_at_stake_than_every_steps_allows(made: Callable[..., Any], tmp_path: Path) -> None:
    """The writer is stopped at each save, and goes on only when the training waits for it."""
    ckpt, state = made(every_steps=4, when_behind="wait")
    real, at_stake = ckpt._saver.land, []

    def land() -> None:
        at_stake.append(ckpt.step_count - int(max(["ckpt-t000001-s00000000.pt", *names(tmp_path / "ckpt")])[-11:-3]))
        os.kill(writer_of(ckpt), signal.SIGCONT)
        real()

    ckpt._saver.land = land
    for _ in range(17):
        was_busy = ckpt._saver.is_busy
        ckpt.step()
        if ckpt._saver.is_busy and not was_busy:
            os.kill(writer_of(ckpt), signal.SIGSTOP)
    ckpt._saver.land = real
    os.kill(writer_of(ckpt), signal.SIGCONT)
    assert at_stake and max(at_stake) <= 4, at_stake


def test_best_is_linked_when_its_checkpoint_is_durable(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, state = made(best=("score", "max"), every_steps=1000)
    for score in (1, 5, 3):
        state["count"] = score
        ckpt.end_epoch(score=score)
    assert ckpt.best_state()["state"]["count"] == 5


def test_it_is_said_before_the_first_save_what_it_takes(
    made: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    made()[0].step()
    said = capsys.readouterr().err
    assert "written every step, written by another process from a copy of 4" in said and "up to 9" in said


def test_an_error_of_the_writer_is_told_at_a_later_step_and_training_goes_on(
    made: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt, state = made()
    ckpt.step()
    assert ckpt.wait()
    broken(tmp_path / "ckpt")
    ckpt.step()
    until(lambda: bool(select.select([ckpt._saver._background._link.channel], [], [], 0)[0]), "no answer came")
    ckpt._pace.every_steps = 1000
    ckpt.step()
    said = capsys.readouterr().err
    assert "step 2 is NOT SAVED: File exists" in said and "; nothing is saved, training continues" in said
    mended(tmp_path / "ckpt")
    assert ckpt.save() and names(tmp_path / "ckpt")[-1] == "ckpt-t000001-s00000003.pt"


def test_an_end_that_the_writer_cannot_save_is_an_error(made: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(NotSaved, match="File exists"):
        ckpt, _ = made(every_steps=1000)
        for _ in ckpt.epochs(1):
            broken(tmp_path / "ckpt")


def test_a_best_epoch_that_could_not_be_saved_is_none_to_be_measured_against(
    made: Callable[..., Any], tmp_path: Path
) -> None:
    ckpt, state = made(best=("score", "max"), every_steps=1000)
    broken(tmp_path / "ckpt")
    ckpt.end_epoch(score=5)
    ckpt.wait()
    mended(tmp_path / "ckpt")
    state["count"] = 4
    ckpt.end_epoch(score=4)
    assert ckpt.best_state()["state"]["count"] == 4


def test_a_writer_that_is_killed_costs_one_save_and_another_takes_its_place(
    made: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt, _ = made()
    ckpt.step()
    assert ckpt.wait()
    first = writer_of(ckpt)
    os.kill(first, signal.SIGSTOP)
    ckpt.step()
    os.kill(first, signal.SIGKILL)
    assert not ckpt.wait()
    assert "step 2 is NOT SAVED: the process that writes ended (signal 9)" in capsys.readouterr().err
    assert ckpt.save() and writer_of(ckpt) != first
    assert names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt", "ckpt-t000001-s00000002.pt"]


def test_each_checkpoint_is_told_when_it_is_durable(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, _ = made()
    told: list[tuple[str, int]] = []
    ckpt.on_durable(lambda path, step: told.append((path, step)) or open(path, "rb").close())
    for _ in range(3):
        ckpt.step()
        ckpt.wait()
    assert told == [(str(tmp_path / "ckpt" / ("ckpt-t000001-s%08d.pt" % step)), step) for step in (1, 2, 3)]


def test_what_a_killed_writer_lost_is_saved_at_the_next_step_whatever_the_cadence(
    made: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt, state = made(every_steps=4, when_behind="wait")
    for count in range(1, 41):
        state["count"] = count
        if count in (6, 14, 15, 30):  # the first two die of a save, the next before one
            os.kill(writer_of(ckpt), signal.SIGKILL)
        elif count == 5:
            ckpt.wait()
            os.kill(writer_of(ckpt), signal.SIGSTOP)
        ckpt.step()
        ckpt._hear()
        newest = max(names(tmp_path / "ckpt"), default="ckpt-t000001-s00000000.pt")
        assert count - int(newest[-11:-3]) <= 8, "two cadences at stake"
    assert capsys.readouterr().err.count("is made by") == 0


def test_a_writer_that_died_between_saves_costs_none(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, _ = made()
    ckpt.step()
    assert ckpt.wait()
    pid = writer_of(ckpt)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "it does not die")
    ckpt.step()
    ckpt.wait()
    assert ckpt.save() and names(tmp_path / "ckpt")[-1] == "ckpt-t000001-s00000002.pt"
    ckpt.step()
    assert ckpt.wait() and is_alive(writer_of(ckpt))


def test_where_no_writer_will_start_saves_are_made_without_one(
    made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(writer, "START", "raise SystemExit(3)")
    ckpt, _ = made()
    for _ in range(4):
        ckpt.step()
        assert ckpt.wait()
    said = capsys.readouterr().err
    assert "the training itself, which waits for the disk: the process that writes ended (exit status 3)" in said
    assert names(tmp_path / "ckpt")[-1] == "ckpt-t000001-s00000004.pt"


def test_a_slow_disk_makes_saves_wait_and_not_the_training(
    made: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt, state = made(when_behind="skip")
    ckpt.step()
    assert ckpt.wait()
    os.kill(writer_of(ckpt), signal.SIGSTOP)
    for count in range(2, 8):
        state["count"] = count
        ckpt.step()  # the first is handed over, the others do not wait
    assert names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt"]
    assert capsys.readouterr().err.count("the disk is behind: step 2 is being written for") == 1
    ckpt._pace.every_steps = 1000
    os.kill(writer_of(ckpt), signal.SIGCONT)
    until(lambda: len(names(tmp_path / "ckpt")) > 1, "step 2 is never there")
    state["count"] = 8
    until(lambda: ckpt.step() or ckpt.step_count > 7 and not ckpt._is_owed, "the save that is owed never comes")
    ckpt.wait()
    assert int(names(tmp_path / "ckpt")[-1][-11:-3]) >= 8


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_signals_meant_for_the_training_do_not_touch_the_writer(made: Callable[..., Any], name: str) -> None:
    ckpt, _ = made()
    ckpt.step()
    assert ckpt.wait()
    pid = writer_of(ckpt)
    os.kill(pid, getattr(signal, name))
    ckpt.step()
    assert ckpt.wait() and writer_of(ckpt) == pid


def test_the_writer_inherits_nothing_but_its_two_descriptors(made: Callable[..., Any], tmp_path: Path) -> None:
    with open(tmp_path / "secret", "w") as f:
        os.set_inheritable(f.fileno(), True)
        ckpt, _ = made()
        ckpt.step()
        assert ckpt.wait()
        held = Path("/proc/%d/fd" % writer_of(ckpt))

        def known() -> list[str]:
            """What it has open; [] where it has just closed one."""
            try:
                targets = {os.readlink(str(path)) for path in held.iterdir()}
            except FileNotFoundError:
                return []
            return sorted(re.sub(r":\[\d+\]", "", target).split(" ")[0] for target in targets)

        # It still looks through the folder when it has answered.
        until(lambda: known() == ["/dev/null", "/memfd:sojourn-checkpoint", "socket"], "it holds more")


def test_a_forked_worker_neither_uses_nor_ends_the_writer(made: Callable[..., Any]) -> None:
    ckpt, _ = made()
    ckpt.step()
    assert ckpt.wait()
    pid = os.fork()
    if not pid:
        background = ckpt._saver._background
        background.close()
        os._exit(0 if background._link.channel.fileno() == -1 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    ckpt.step()
    assert ckpt.wait() and is_alive(writer_of(ckpt))


def test_an_attempt_that_was_overtaken_is_told_at_its_next_step(made: Callable[..., Any], tmp_path: Path) -> None:
    ckpt, _ = made()
    ckpt.step()
    assert ckpt.wait()
    (tmp_path / "ckpt/.t000009.fence").mkdir()  # a later attempt has begun
    ckpt.step()
    with pytest.raises(Superseded, match=r"\(fencing token 9\)"):
        ckpt.wait()
    assert names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt"]


def test_no_memory_for_a_copy_means_that_the_training_waits_and_says_so(
    made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(shared_memory, "room_bytes", lambda: 4 << 20)
    ckpt, _ = made()
    ckpt.step()
    said = capsys.readouterr().err
    assert "saves are made by the training itself, which waits for the disk: a copy takes 4.1 MiB of memory" in said
    assert names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt"]
