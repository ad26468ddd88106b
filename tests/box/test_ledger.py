"""events.jsonl: whatever happens to the disk or to its writer, no line is half and none is told twice."""

import errno
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.box.run.ledger import Ledger
from sojourn.box.run.root import Root
from sojourn.wire import events
from tests.box.rig import Rig, all_events, found, gone, heard, keeper_log, kill, until


def seqs(path: Path) -> "list[int]":
    return [event["seq"] for event in events.parse(path.read_bytes())[0]]


@pytest.mark.parametrize("tail", [b'{"v":1,"seq":9,"kind":"beat"', b"{", b"\xff\xfe", b"\0\0\0\0", b'{"v":1,"seq":2'])
def test_a_torn_tail_costs_nothing_but_itself(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "events.jsonl"
    first = Ledger(str(path))
    first.note("attempt", 1, token="t")
    first.close()
    with open(path, "ab") as f:
        f.write(tail)
    second = Ledger(str(path))
    assert second.history.attempt == 1 and second.history.seq == 1
    second.note("prepared", 1)
    second.close()
    assert seqs(path) == [1, 2]
    assert tail in path.read_bytes()  # nothing is ever taken away: it is evidence


def test_numbers_go_on_over_a_million_beats_without_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with open(path, "wb") as f:
        f.write(events.line(1, "2026-11-21T10:00:00.000Z", "attempt", 1, {}))
        for seq in range(2, 50_000):
            f.write(events.line(seq, "2026-11-21T10:00:00.000Z", "beat", 1, {"payload_s": 1.0}))
    ledger = Ledger(str(path))
    assert ledger.history.seq == 49_999 and ledger.history.attempt == 1
    ledger.close()


def test_kinds_are_those_that_readers_know(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "events.jsonl"))
    with pytest.raises(ValueError, match="unknown event kind"):
        ledger.note("finished", 1)
    ledger.close()


class Short(Ledger):
    """A disk that takes only so many bytes."""

    room = 10_000

    def _write(self, line: bytes) -> bool:
        before = os.fstat(self._fd).st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, resource.RLIM_INFINITY))
        try:
            return super()._write(line)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert os.fstat(self._fd).st_size >= before


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Short]:
    ledger = Short(str(tmp_path / "events.jsonl"))
    yield ledger
    ledger.close()


def test_what_does_not_fit_waits_whole_and_comes_in_order_when_there_is_room(short: Short, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    short.room = 250
    noted = [short.note("beat", 1, payload_s=1.5) for _ in range(6)]
    assert noted[0] is True and noted[-1] is False
    assert path.read_bytes().endswith(b"\n") and seqs(path) == list(range(1, len(seqs(path)) + 1))  # no half line
    short.note("ended", 1, state="failed", seconds=1.0)
    assert short.history.state == "failed"  # we know, though the disk does not
    short.room = 10_000
    assert short.flush()
    assert seqs(path) == list(range(1, 8))


def test_when_too_much_waits_beats_go_first(short: Short, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.box.run.ledger._KEPT", 5)
    short.room = 0
    for _ in range(10):
        short.note("beat", 1)
    short.note("ended", 1, state="failed", seconds=1.0)
    for _ in range(10):
        short.note("beat", 1)
    short.room = 10_000
    assert short.flush()
    assert "ended" in [event["kind"] for event in events.parse((tmp_path / "events.jsonl").read_bytes())[0]]


def test_other_disk_errors_are_complained_about_and_do_not_raise(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(str(tmp_path / "events.jsonl"))
    os.close(ledger._fd)
    ledger._fd = os.open(str(tmp_path / "events.jsonl"), os.O_RDONLY)
    assert ledger.note("beat", 1) is False
    assert os.strerror(errno.EBADF) in capfd.readouterr().err
    ledger.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    if os.getuid():
        pytest.skip("needs root for a small file system of its own")
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("cannot mount: " + done.stderr.decode().strip())
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small(small_disk: Path) -> Iterator[Rig]:
    """A box on it."""
    box = Rig(small_disk)
    yield box
    box.close()


def fill(folder: Path) -> Path:
    """Use up every byte."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as f:
        for size in (4096, 512, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return path


def is_still(root: Root) -> bool:
    """No event comes any more, though beats are due."""
    before = len(all_events(root))
    time.sleep(0.6)
    return len(all_events(root)) == before


WAITS = 'until test -e "%s/go"; do sleep 0.05; done; exit 5'


@pytest.mark.lab
def test_a_full_disk_costs_neither_the_payload_nor_its_exit_status(
    small: Rig, small_disk: Path, tmp_path: Path
) -> None:
    root = small.place(WAITS % tmp_path, outputs=["*.txt"])
    keeper = small.supervise(root)
    heard(root, "beat", 2)
    filler = fill(small_disk)
    until(lambda: is_still(root))  # beats wait
    (tmp_path / "go").touch()
    end = heard(root, "ended")  # the room behind the events is for this
    assert (end["state"], end["rc"]) == ("failed", 5)
    assert json.loads(Path(root.exit(1)).read_text())["rc"] == 5
    assert keeper.poll() is None and not found(root, "sealed")
    filler.unlink()
    keeper.send_signal(10)  # SIGUSR1: look now, so that the test need not wait
    assert keeper.wait(60) == 0
    numbers = [event["seq"] for event in all_events(root)]
    assert numbers == sorted(set(numbers)) and all_events(root)[-1]["kind"] == "sealed"
    assert os.stat(root.events).st_blocks * 512 < os.path.getsize(root.events) + 16384  # given back


@pytest.mark.lab
def test_where_no_more_files_can_be_made_a_run_is_sealed_all_the_same(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root for a small file system of its own")
    folder = tmp_path / "few"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=200", "tmpfs", str(folder)], check=True)
    try:
        box = Rig(folder)
        root = box.place('mkdir many; i=0; while echo > many/$i; do i=$((i+1)); done; echo "$i files"; exit 3')
        keeper = box.supervise(root)
        assert heard(root, "ended")["rc"] == 3
        assert heard(root, "said")["room"]["free_inodes"] == 0
        assert keeper.wait(60) == 0 and found(root, "sealed")
        box.close()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.lab
def test_a_keeper_killed_on_a_full_disk_loses_nothing_either(small: Rig, small_disk: Path, tmp_path: Path) -> None:
    root = small.place(WAITS % tmp_path)
    keeper = small.supervise(root)
    heard(root, "beat", 2)
    filler = fill(small_disk)
    (tmp_path / "go").touch()
    shim = found(root, "started")[0]["shim"]["pid"]
    until(lambda: gone(shim))
    kill({keeper.pid})
    keeper.wait(60)
    filler.unlink()
    end = small.finish(root)
    assert (end["state"], end["rc"], end["by"]) == ("failed", 5, "shim")


@pytest.mark.lab
def test_a_disk_full_from_the_start_starts_nothing_and_leaves_nothing_half(
    small: Rig, small_disk: Path, tmp_path: Path
) -> None:
    root = small.place('echo ran >> "%s/ran"' % tmp_path)
    filler = fill(small_disk)
    assert small.supervise(root).wait(60) == 74
    assert not found(root, "started") and not (tmp_path / "ran").exists()
    filler.unlink()
    assert small.finish(root)["state"] == "succeeded", keeper_log(root)


@pytest.mark.lab
def test_placing_on_a_full_disk_is_one_clear_refusal_with_nothing_half_written(small: Rig, small_disk: Path) -> None:
    filler = fill(small_disk)
    answer = small.call("place", run={"run": "r", "identity": "x", "argv": ["true"]}, want={"attempt": 1})
    assert (answer["ok"], answer["code"], answer["errno"]) == (False, "os-error", errno.ENOSPC)
    filler.unlink()
    assert not list((small.base / "runs").rglob("*.json*"))
    assert small.finish(small.place("true"))["state"] == "succeeded"


def test_a_root_that_cannot_be_written_is_said_and_nothing_started(rig: Rig) -> None:
    root = rig.place("true")
    os.unlink(root.run)
    assert rig.supervise(root).wait(60) == 74
    assert "run.json" in keeper_log(root)
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "supervise", "--root", str(rig.base / "runs/nobody")]
    assert subprocess.run(argv, capture_output=True, timeout=60).returncode == 74
