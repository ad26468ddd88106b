"""The folder of checkpoints under real faults: damage, full and broken disks, two processes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import Damaged
from sojourn.train import Checkpointer, preempt, run_env
from sojourn.train.saving import folder
from sojourn.train.saving.folder import FolderBusy, NoPlace
from sojourn.train.saving.saving import NotSaved
from tests.train.killing import environment
from tests.train.lives import is_alive

MOUNTS = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts small disks")


@pytest.fixture(autouse=True)
def quiet_signals() -> Iterator[None]:
    yield
    preempt.uninstall()
    preempt.forget()


def saved(path: Path, *counts: int, size: int = 8, **more: Any) -> Checkpointer:
    """A Checkpointer on `path` that took and saved a step with each of the states `counts`."""
    state: dict[str, Any] = {"count": 0, "array": np.zeros(size)}
    ckpt = Checkpointer(folder=path, state=state, every_steps=1, **more)
    for count in counts:
        state["count"], state["array"][:] = count, count
        ckpt.step()
    return ckpt


def loaded(path: Path, size: int = 8) -> int:
    """What the next start finds, all of it checked."""
    state: dict[str, Any] = {"count": 0, "array": np.zeros(size)}
    Checkpointer(folder=path, state=state)
    assert (state["array"] == state["count"]).all()
    return int(state["count"])


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name != ".lock")


def test_a_flip_anywhere_in_the_newest_falls_back_to_the_one_before_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, 1, 2)
    newest = tmp_path / "ckpt-t000001-s00000002.pt"
    good = newest.read_bytes()
    for at in [*range(0, len(good), 61), len(good) - 1]:
        newest.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        assert loaded(tmp_path) == 1, at
        assert newest.name + " is damaged and skipped" in capsys.readouterr().err
    newest.write_bytes(good[: len(good) // 2])
    assert loaded(tmp_path) == 1
    newest.write_bytes(good)
    assert loaded(tmp_path) == 2


def test_a_damaged_one_does_not_count_as_kept_and_goes_when_a_new_one_is_there(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    (tmp_path / "ckpt-t000001-s00000002.pt").write_bytes(b"")
    saved(tmp_path, 5)
    assert names(tmp_path) == ["ckpt-t000001-s00000001.pt", "ckpt-t000002-s00000002.pt", "latest.json"]


def test_where_nothing_is_valid_it_refuses_to_start_from_the_beginning(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for path in tmp_path.glob("ckpt-*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damaged, match="none of its 2 checkpoints can be read; move them away"):
        loaded(tmp_path)
    assert len(names(tmp_path)) == 3


def test_best_is_the_last_resort(tmp_path: Path) -> None:
    ckpt = saved(tmp_path, best=("score", "max"))
    ckpt.end_epoch(score=1)
    (tmp_path / "copy").write_bytes((tmp_path / "best.pt").read_bytes())
    for path in tmp_path.glob("ckpt-*"):
        path.write_bytes(b"broken")
    os.replace(tmp_path / "copy", tmp_path / "best.pt")
    assert Checkpointer(folder=tmp_path, state={"count": 0, "array": np.zeros(8)}).epoch == 1


def test_a_higher_token_wins_over_a_higher_step(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3, 4, keep=9)
    for step in (2, 3, 4):
        (tmp_path / ("ckpt-t000001-s%08d.pt" % step)).rename(tmp_path / ("kept%d" % step))
    saved(tmp_path, 7)  # a second attempt resumes from step 1
    for step in (2, 3, 4):
        (tmp_path / ("kept%d" % step)).rename(tmp_path / ("ckpt-t000001-s%08d.pt" % step))
    assert loaded(tmp_path) == 7


def test_leaves_alone_what_it_did_not_write_and_clears_what_killed_attempts_left(tmp_path: Path) -> None:
    for name in ("notes.txt", "epoch_3.pt", ".ckpt-t000001-s00000001.pt.77.tmp", "latest.json.99.tmp"):
        (tmp_path / name).write_text("x")
    saved(tmp_path, 1)
    assert names(tmp_path) == ["ckpt-t000001-s00000001.pt", "epoch_3.pt", "latest.json", "notes.txt"]


def test_without_hard_links_best_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    ckpt = saved(tmp_path, best=("score", "max"))
    ckpt.end_epoch(score=1)
    assert torch_zip.walk(str(tmp_path / "best.pt")).problems == ()
    assert (tmp_path / "best.pt").stat().st_nlink == 1


@MOUNTS
@pytest.mark.lab
@pytest.mark.parametrize("options", ["size=200k", "size=10m,nr_inodes=6"], ids=["bytes", "inodes"])
@pytest.mark.parametrize("background", [False, True], ids=["here", "there"])
def test_a_full_disk_costs_no_checkpoint_and_no_training(
    background: bool, options: str, mount: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount(options)
    ckpt = saved(disk, 1, size=5000, background=background)
    assert ckpt.wait()
    ballast = [disk / ("ballast%d" % i) for i in range(6)]
    with pytest.raises(OSError, match="No space left"):
        for path in ballast:
            path.write_bytes(b"x" * 30000)
    before = names(disk)
    ckpt.step()
    assert not ckpt.wait()
    assert not ckpt.save()
    said = capsys.readouterr().err
    assert "step 2 is NOT SAVED: No space left on device" in said and "(2 times now)" in said
    assert "ckpt-t000001-s00000001.pt stands, training continues" in said
    assert names(disk) == before
    for path in disk.glob("ballast*"):
        path.unlink()
    assert ckpt.save()
    assert torch_zip.walk(str(disk / "ckpt-t000001-s00000002.pt")).problems == ()
    ckpt.close()


@MOUNTS
@pytest.mark.lab
@pytest.mark.parametrize("background", [False, True], ids=["here", "there"])
def test_on_a_full_disk_the_older_of_two_makes_room_and_one_good_stays(
    background: bool, mount: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount("size=200k")  # a checkpoint is 50 KiB
    ckpt = saved(disk, 1, size=5000, background=background)
    assert ckpt.wait()
    ckpt.step()
    assert ckpt.wait()
    free = os.statvfs(str(disk)).f_bavail * os.statvfs(str(disk)).f_frsize
    (disk / "ballast").write_bytes(b"x" * (free - 20000))
    ckpt.step()
    assert ckpt.wait()
    name, gone = "ckpt-t000001-s00000003.pt", "ckpt-t000001-s00000001.pt"
    assert "no room for %s: %s, an older one, was removed to make some" % (name, gone) in capsys.readouterr().err
    assert [path.name for path in sorted(disk.glob("*.pt"))] == ["ckpt-t000001-s00000002.pt", name]
    ckpt.close()


@pytest.mark.parametrize("background", [False, True], ids=["here", "there"])
def test_a_folder_removed_in_mid_run_is_made_again(
    background: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt = saved(tmp_path / "f", 1, background=background)
    assert ckpt.wait()
    shutil.rmtree(str(tmp_path / "f"))
    assert ckpt.save(), "what is gone is not called saved"
    assert "%s was removed with all that was in it, and is made again" % (tmp_path / "f") in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "f").glob("*.pt")] == ["ckpt-t000001-s00000001.pt"]
    ckpt.close()
    assert loaded(tmp_path / "f") == 1


@MOUNTS
@pytest.mark.lab
def test_an_end_that_cannot_be_saved_is_an_error(mount: Callable[..., Path]) -> None:
    disk = mount("size=16k")
    with pytest.raises(NotSaved, match="No space left on device"):
        for _ in Checkpointer(folder=disk, state={"a": np.zeros(5000)}).epochs(1):
            pass


@MOUNTS
@pytest.mark.lab
def test_bytes_that_were_written_and_cannot_be_fsynced_are_no_checkpoint(
    tmp_path: Path, mount: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """An ext4 on a file that is larger than the disk it lies on: writes succeed, fsync does not."""
    small = mount("size=16m")
    image = small / "image"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)], check=True)
    disk = mount("loop", str(image), "ext4")
    state: dict[str, Any] = {"array": np.zeros(100000)}
    ckpt = Checkpointer(folder=disk, state=state, every_steps=1)
    ckpt.step()
    state["array"] = np.random.default_rng(0).random(5 << 20)  # 40 MB
    ckpt.step()
    assert not ckpt.wait()  # written by another process
    assert "step 2 is NOT SAVED: " in capsys.readouterr().err
    assert [name for name in names(disk) if "ckpt" in name] == ["ckpt-t000001-s00000001.pt"]
    assert torch_zip.walk(str(disk / "ckpt-t000001-s00000001.pt")).problems == ()


@MOUNTS
@pytest.mark.lab
def test_a_disk_that_turns_read_only_is_told_and_the_old_checkpoint_read(
    mount: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount("size=1m")
    ckpt = saved(disk, 1)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    ckpt.step()
    assert "NOT SAVED: Read-only file system" in capsys.readouterr().err
    ckpt.close()
    with pytest.raises(NoPlace, match="cannot be written to"):
        loaded(disk)  # better said at the start than at the first save


def hold(path: Path) -> subprocess.Popen[bytes]:
    """Another process that has the folder, until it is killed."""
    code = "import sys, time; from sojourn.train import Checkpointer; c = Checkpointer(folder=sys.argv[1], state={});"
    code += "print('has it', flush=True); time.sleep(60)"
    argv = [sys.executable, "-c", code, str(path)]
    process = subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"has it\n"
    return process


def test_a_second_training_in_one_folder_is_refused_and_the_killed_ones_place_is_free_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOCK_WAIT_S", 0.3)
    other = hold(tmp_path)
    with pytest.raises(FolderBusy, match="its own folder"):
        Checkpointer(folder=tmp_path, state={})
    other.kill()
    other.communicate()
    assert not Checkpointer(folder=tmp_path, state={}).resumed


def test_a_worker_that_outlives_a_killed_training_does_not_hold_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOCK_WAIT_S", 0.3)
    code = (
        "import os, sys, time; from sojourn.train import Checkpointer; c = Checkpointer(folder=sys.argv[1], state={});"
    )
    code += "pid = os.fork(); pid and print(pid, flush=True); time.sleep(60)"
    argv = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    with pytest.raises(FolderBusy):
        Checkpointer(folder=tmp_path, state={})
    process.kill()
    process.wait()
    try:
        assert not Checkpointer(folder=tmp_path, state={}).resumed
        assert is_alive(worker)
    finally:
        os.kill(worker, signal.SIGKILL)
        process.stdout.close()


def test_two_attempts_writing_at_once_never_mix_and_the_later_one_wins(tmp_path: Path) -> None:
    """A stray old process under sojourn, where no lock is held: tokens 1 and 2 save all the time into one folder."""
    code = (
        "import sys, numpy as np; from sojourn.train import Checkpointer\n"
        "state = {'array': np.zeros(2000)}\n"
        "c = Checkpointer(folder=sys.argv[1], state=state, every_steps=1, best=('score', 'max'))\n"
        "for i in range(60):\n"
        "    state['array'][:] = int(sys.argv[2]) * 1000 + i\n"
        "    c.step(); c.end_epoch(score=i)\n"
    )
    processes = []
    for token in ("1", "2"):
        argv = [sys.executable, "-c", code, str(tmp_path), token]
        env = environment(SOJOURN_TOKEN=token)
        processes.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    said = [process.communicate(timeout=240)[0].decode() for process in processes]
    assert processes[1].returncode == 0, said[1]
    assert processes[0].returncode == 0 or "a later attempt" in said[0].lower(), said[0]
    for path in tmp_path.glob("*.pt"):
        opened = torch_zip.read_zip(str(path))
        array = np.frombuffer(opened.tree["state"]["array"].storage.view())
        assert array.min() == array.max() and array[0] // 1000 == opened.facts["token"]
    state = {"array": np.zeros(2000)}
    Checkpointer(folder=tmp_path, state=state)
    assert state["array"][0] == 2059


def test_a_folder_that_ends_with_the_job_is_refused_and_the_runs_own_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOJOURN_PASSING", os.pathsep.join(["", str(tmp_path / "node")]))
    monkeypatch.setenv("SOJOURN_RUN_DIR", str(tmp_path / "shared"))
    (tmp_path / "link").symlink_to(tmp_path / "node")
    for passing in (tmp_path / "node", tmp_path / "node" / "c", tmp_path / "link" / "c", "../node/c"):
        with pytest.raises(run_env.BadUse, match="would end with the job"):
            run_env.place(passing)
    assert run_env.place("mine") == str(tmp_path / "shared" / "mine")
    assert run_env.place(tmp_path / "nodes") == str(tmp_path / "nodes")
