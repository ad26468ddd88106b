"""The writer process and the script it works for: who outlives whom, and what is on the disk then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sojourn.train import Checkpointer
from sojourn.train.saving import shared_memory
from tests.train.killing import SOURCE, environment
from tests.train.lives import DEADLINE_S, is_alive, loaded, names, until

pytestmark = pytest.mark.skipif(not shared_memory.is_possible(), reason="only Linux has memfd")
CHILD = """
import os, signal, sys, time
from sojourn.train import Checkpointer
state = {"count": 0, "bytes": bytearray(4 << 20)}
ckpt = Checkpointer(folder=sys.argv[1], state=state, every_steps=1, background=True)
ckpt.step()
ckpt.wait()
print(ckpt._saver._background._link.process.pid, flush=True)
"""


def child(folder: Path, more: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", CHILD + more, str(folder)]
    return subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)


def pid_said(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().isdigit():
            return int(line)
    raise AssertionError("it ended early")


def test_a_script_that_just_ends_has_its_last_save_on_the_disk(tmp_path: Path) -> None:
    process = child(tmp_path, "state['count'] = 7; state['bytes'][:] = b'z' * (4 << 20); ckpt.step()")
    pid = pid_said(process)
    assert process.wait(timeout=DEADLINE_S) == 0
    assert loaded(tmp_path)["count"] == 7 and not is_alive(pid)
    assert process.stdout is not None
    process.stdout.close()


def test_an_error_in_the_script_does_not_lose_the_save_that_was_under_way(tmp_path: Path) -> None:
    process = child(tmp_path, "state['count'] = 7; ckpt.step(); raise KeyError('the script')")
    pid = pid_said(process)
    assert b"KeyError" in process.communicate(timeout=DEADLINE_S)[0]
    assert loaded(tmp_path)["count"] == 7 and not is_alive(pid)


def test_the_writer_dies_with_the_training_also_when_that_is_killed(tmp_path: Path) -> None:
    process = child(tmp_path, "time.sleep(600)")
    pid = pid_said(process)
    assert is_alive(pid)
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    until(lambda: not is_alive(pid), "the writer lives on")


def test_an_orphan_that_wakes_up_publishes_nothing_into_the_next_attempts_folder(tmp_path: Path) -> None:
    """Stopped in the middle of its work, then left alone: not even the kernel's signal can have ended it before."""
    more = "os.kill(ckpt._saver._background._link.process.pid, signal.SIGSTOP); ckpt.step(); time.sleep(600)"
    process = child(tmp_path, more)
    pid = pid_said(process)
    until(lambda: Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] == "T", "it does not stop")
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    state = loaded(tmp_path)  # the next attempt does not wait for it
    assert state["count"] == 0
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
    until(lambda: not is_alive(pid), "the orphan lives on")
    assert names(tmp_path) == ["ckpt-t000001-s00000001.pt"]


def test_from_the_packed_zip_as_on_a_box_the_writer_starts_too(tmp_path: Path) -> None:
    packed = tmp_path / "train.zip"
    with zipfile.ZipFile(str(packed), "w") as archive:
        for path in sorted((SOURCE / "sojourn").glob("*.py")):
            archive.write(str(path), "sojourn/" + path.name)
        for room in ("train", "wire", "formats"):
            for path in sorted((SOURCE / "sojourn" / room).rglob("*.py")):
                archive.write(str(path), str(path.relative_to(SOURCE)))
    code = CHILD.replace("ckpt.wait()", "assert ckpt.wait()") + "import sojourn; print(sojourn.__file__)"
    argv = [sys.executable, "-c", code, str(tmp_path / "ckpt")]
    env = dict(environment(), PYTHONPATH=str(packed))
    done = subprocess.run(
        argv, env=env, cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    said = done.stdout.decode()
    assert done.returncode == 0 and str(packed) in said and "by another process" in said, said
    assert names(tmp_path / "ckpt") == ["ckpt-t000001-s00000001.pt"]


def test_the_writer_is_the_one_to_be_ended_for_want_of_memory_only_while_it_holds_nothing(
    tmp_path: Path,
) -> None:
    ckpt = Checkpointer(folder=tmp_path / "ckpt", state={"b": bytearray(3 << 20)}, every_steps=1, background=True)
    ckpt.step()
    pid = ckpt._saver._background._link.process.pid  # type: ignore[union-attr]
    assert ckpt.wait()
    score, own = Path("/proc/%d/oom_score_adj" % pid), Path("/proc/self/oom_score_adj").read_text()
    until(lambda: score.read_text().strip() == "500", "it is not the one")
    lowest: list[str] = []
    fifo = tmp_path / "ckpt" / (".ckpt-t000001-s00000002.pt.%d.tmp" % pid)
    os.mkfifo(str(fifo))  # opening it waits for a reader
    ckpt.step()
    until(lambda: lowest.append(score.read_text()) or lowest[-1] == own, "it stays the preferred victim")
    os.close(os.open(str(fifo), os.O_RDONLY))
    assert not ckpt.wait()
    until(lambda: score.read_text().strip() == "500", "it is not the one again")
    ckpt.close()
