"""Atomic files: a reader sees the old bytes or the new ones, whatever happens to the writer."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sojourn.wire import atomic


def test_what_was_written_is_there_with_its_mode_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a b\n\u00e9"
    for data in (b"one", b"", b"x" * 100_000):
        atomic.write(str(path), data, mode=0o600)
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == [path.name] and oct(path.stat().st_mode)[-3:] == "600"


def test_readers_see_only_whole_files_while_it_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    atomic.write(path, b"0" * 50_000, durable=False)
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 10
            atomic.write(path, b"%d" % number * 50_000, durable=False)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(500):
            with open(path, "rb") as f:
                data = f.read()
            assert len(data) == 50_000 and len(set(data)) == 1
    finally:
        stop.set()
        writer.join()


def test_a_writer_killed_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    code = "import sys; sys.path.insert(0, sys.argv[2]); from sojourn.wire import atomic\nprint(1, flush=True)\n"
    code += "while True: atomic.write(sys.argv[1], b'new' * 1000000, durable=False)"
    src = str(Path(atomic.__file__).parents[2])
    with subprocess.Popen([sys.executable, "-c", code, str(path), src], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.read(1) == b"1"
        child.send_signal(signal.SIGKILL)
    assert path.read_bytes() in (b"old", b"new" * 1_000_000)


def test_when_it_does_not_fit_the_old_file_stands_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError) as error:
            atomic.write(str(path), b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert error.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_json_is_one_sorted_line_and_says_no_nan(tmp_path: Path) -> None:
    path = str(tmp_path / "f.json")
    atomic.write_json(path, {"b": "\u00e9", "a": [1, None]})
    assert Path(path).read_text("utf-8") == '{"a": [1, null], "b": "\u00e9"}\n'
    with pytest.raises(ValueError):
        atomic.write_json(path, float("nan"))
    assert atomic.read_json(path) == {"a": [1, None], "b": "\u00e9"}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": 1}x'])
def test_a_torn_json_file_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    assert atomic.read_json(str(tmp_path / "f")) is None
    assert atomic.read_json(str(tmp_path / "nothing")) is None


def test_a_json_file_that_cannot_be_read_is_an_error_and_not_none(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        atomic.read_json(str(tmp_path))


def test_a_file_padded_with_blanks_is_still_json(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(json.dumps({"rc": 0}).encode().ljust(4096))
    assert atomic.read_json(str(tmp_path / "f")) == {"rc": 0}


def test_a_device_is_written_into_and_never_replaced(tmp_path: Path) -> None:
    node = tmp_path / "null"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        node.symlink_to("/dev/null")  # of another user, whose folder nothing can be renamed in
    atomic.write(str(node), b"x")
    atomic.write_json(str(node), {})
    assert stat.S_ISCHR(node.stat().st_mode) and os.listdir(tmp_path) == ["null"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_stands(tmp_path: Path, make) -> None:
    make(tmp_path / "there")
    before = os.lstat(tmp_path / "there")
    with pytest.raises(OSError):
        atomic.write(str(tmp_path / "there"), b"x")
    assert os.lstat(tmp_path / "there").st_ino == before.st_ino and os.listdir(tmp_path) == ["there"]
