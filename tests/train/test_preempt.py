"""The preemption flag: set by signals, never in the way of others' handlers."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from sojourn.train import Checkpointer, preempt, preempted


@pytest.fixture(autouse=True)
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in preempt.SIGNALS}
    yield
    preempt.uninstall()
    preempt.forget()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_only_sets_the_flag_and_the_next_step_saves_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    ckpt = Checkpointer(state={}, every_s=1000)
    ckpt.step()
    assert not preempted()
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGTERM)
    assert preempted()
    with pytest.raises(SystemExit) as e:
        ckpt.step()
    assert e.value.code == 75
    assert "SIGUSR1 at step 2: saved at step 2; exiting with 75" in capsys.readouterr().err
    assert Checkpointer(state={}).step_count == 2


def test_a_handler_that_was_there_is_still_called_and_comes_back() -> None:
    seen: list[int] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(number)

    signal.signal(signal.SIGTERM, handler)
    ckpt = Checkpointer(state={})
    os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM] and preempted()
    ckpt.close()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_handler_set_later_that_calls_ours_is_called_once_and_the_training_leaves() -> None:
    """As libraries chain them; `epochs` handles the signals anew."""
    seen: list[int] = []
    ckpt = Checkpointer(state={}, every_s=1000)
    ours: Any = signal.getsignal(signal.SIGTERM)

    def handler(number: int, frame: Any) -> None:
        seen.append(number)
        ours(number, frame)

    signal.signal(signal.SIGTERM, handler)
    with pytest.raises(SystemExit) as e:
        for _ in ckpt.epochs(1):
            for _ in ckpt.batches(range(3)):
                os.kill(os.getpid(), signal.SIGTERM)
                ckpt.step()
    assert e.value.code == 75 and seen == [signal.SIGTERM]


def test_a_handler_set_later_is_not_taken_away() -> None:
    ckpt = Checkpointer(state={})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ckpt.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_training_that_is_over_is_ended_by_a_signal_as_any_program() -> None:
    for _ in Checkpointer(state={}).epochs(1):
        os.kill(os.getpid(), 0)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL and not preempted()


def test_preempted_in_the_last_epoch_it_leaves_with_75_and_is_over_at_the_next_start() -> None:
    with pytest.raises(SystemExit):
        for _ in Checkpointer(state={}).epochs(1):
            os.kill(os.getpid(), signal.SIGTERM)
    preempt.forget()
    assert list(Checkpointer(state={}).epochs(1)) == []


def test_a_save_that_fails_does_not_keep_it_from_leaving(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt = Checkpointer(state={}, every_steps=1)
    ckpt.step()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    preempt.ask("the scheduler's word")
    with pytest.raises(SystemExit) as e:
        ckpt.step()
    said = capsys.readouterr().err
    assert e.value.code == 75
    assert "nothing new could be saved, ckpt-t000001-s00000001.pt stands; exiting with 75" in said


def test_outside_the_main_thread_it_says_that_signals_are_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    thread = threading.Thread(target=lambda: Checkpointer(state={}).step())
    thread.start()
    thread.join()
    assert "a preemption signal will not be seen" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_forked_worker_is_still_ended_by_a_signal() -> None:
    Checkpointer(state={})
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(3)
    time.sleep(0.1)
    os.kill(child, signal.SIGTERM)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is preempt._on_signal
