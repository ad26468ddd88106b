"""The writer is killed at random moments, its disk is full at others: a few in `make test`."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer, preempt
from sojourn.train.saving import shared_memory

pytestmark = pytest.mark.skipif(not shared_memory.is_possible(), reason="only Linux has memfd")
EVERY, SIZE = 5, 3 << 20


@pytest.fixture(autouse=True)
def quiet_signals() -> Iterator[None]:
    yield
    preempt.uninstall()
    preempt.forget()


class Training:
    """Steps of 3 ms, a state of 3 MiB, a save every 5 steps. `at_stake`: steps that a kill would cost now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: dict[str, Any] = {"count": 0, "bytes": bytearray(SIZE)}
        self.ckpt = Checkpointer(
            folder=folder, state=self.state, every_steps=EVERY, background=True, when_behind="wait"
        )

    def step(self) -> None:
        self.state["count"] += 1
        time.sleep(0.003)
        self.ckpt.step()

    @property
    def at_stake(self) -> int:
        latest = self.ckpt._saver.latest
        return self.ckpt.step_count - (0 if latest is None else int(latest["step"]))

    def good(self) -> list[int]:
        """Steps of the checkpoints that are whole; all must be, but for one that is just being removed."""
        steps = []
        for path in sorted(self.folder.glob("ckpt-*.pt")):
            try:
                assert torch_zip.walk(str(path)).problems == ()
            except FileNotFoundError:
                continue
            steps.append(int(path.stem[-8:]))
        return steps


def kill_the_writer(folder: Path, dice: random.Random, kills: int) -> int:
    """So many kills, each at a random moment of a few steps; the most steps ever at stake."""
    worst, training = 0, Training(folder)
    for _ in range(kills):
        for _ in range(dice.randint(0, 2 * EVERY)):
            training.step()
            worst = max(worst, training.at_stake)
        background = training.ckpt._saver._background
        if background is not None:
            pid = background._link.process.pid
            late = threading.Timer(dice.uniform(0.0, 0.03), os.kill, (pid, signal.SIGKILL))
            late.start()
            for _ in range(2 * EVERY):
                training.step()
                worst = max(worst, training.at_stake)
            late.join()
    assert training.ckpt.save() and training.ckpt.step_count in training.good()
    training.ckpt.close()
    return worst


@pytest.mark.trials(test=1, campaign=20, soak=100)
@pytest.mark.timeout(3600)
def test_a_killed_writer_never_costs_two_cadences(
    trial_count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(trial_count):
        worst = kill_the_writer(tmp_path / str(seed), random.Random(f"writer {seed}"), 10)
        assert worst <= 2 * EVERY, (seed, worst, capsys.readouterr().err)


def fill_the_disk(disk: Path, dice: random.Random, moments: int, said: Callable[[], str]) -> None:
    """So many times the disk is filled at a random moment, to a random rest, and emptied some steps later."""
    training, ballast, words = Training(disk / "ckpt"), disk / "ballast", ""
    training.step()
    assert training.ckpt.save()  # before there is one, a full disk leaves none
    for moment in range(moments):
        for _ in range(dice.randint(1, 2 * EVERY)):
            training.step()
        disc = os.statvfs(str(disk))
        with open(str(ballast), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, max(1, disc.f_bavail * disc.f_frsize - dice.randint(0, 2 * SIZE)))
        for _ in range(2 * EVERY):
            training.step()
            words += said()
            is_told = "NOT SAVED" in words or "no room for" in words
            assert training.at_stake <= 2 * EVERY or is_told, (moment, training.at_stake, words)
        assert training.good(), moment
        ballast.unlink()
        assert training.ckpt.save(), (moment, words)
        words = ""
    training.ckpt.close()


@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_save_under_way_that_finds_no_room_is_made_again_once_there_is_some(mount: Callable[..., Path]) -> None:
    disk = mount("size=14m")
    training, ballast = Training(disk / "ckpt"), disk / "ballast"
    training.step()
    assert training.ckpt.save()
    disc = os.statvfs(str(disk))
    with open(str(ballast), "wb") as f:
        os.posix_fallocate(f.fileno(), 0, disc.f_bavail * disc.f_frsize - SIZE // 2)
    while not training.ckpt._saver.is_busy:
        training.step()
    background = training.ckpt._saver._background
    word = select.poll()
    word.register(background._link.channel, select.POLLIN)
    assert word.poll(60_000), "the writer did not say that it failed"
    ballast.unlink()
    assert training.ckpt.save() and training.ckpt.step_count in training.good()
    training.ckpt.close()


@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.trials(test=5, campaign=200, soak=1000)
@pytest.mark.timeout(3600)
def test_a_disk_that_is_full_at_any_moment_leaves_a_good_checkpoint_and_is_told(
    trial_count: int, mount: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disk = mount("size=14m")
    fill_the_disk(disk, random.Random("disk"), trial_count, lambda: capsys.readouterr().err)
