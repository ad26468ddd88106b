"""Large files that are checked while they are fetched: no damage slips through, and what cannot be read is an error."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.fetched import Fetched
from sojourn.formats.torch.values import Damaged, Storage, Tensor
from tests.lab import machine_faults
from tests.train.killing import environment

TENSORS = 6
FIBMAP = 1  # linux/fs.h
EACH_BYTES = (5 << 20) + 77  # of neither the fetching steps nor the pieces that are looked at a multiple
READ = """
import mmap, sys, zlib
from sojourn.formats.torch.fetched import Fetched
with open(sys.argv[1], "rb") as f:
    data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))
with Fetched(sys.argv[1], data) as fetched:
    print(zlib.crc32(b"".join(fetched.read(0, len(data)))))
"""
FACTS = "import sys; from sojourn.formats.torch import zip as torch_zip; print(dict(torch_zip.facts(sys.argv[1])))"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fetched") / "a.pt"
    dice = random.Random(1)
    data = [dice.getrandbits(8 * EACH_BYTES).to_bytes(EACH_BYTES, "little") for _ in range(TENSORS)]
    storages = [Storage(EACH_BYTES, lambda b=b: memoryview(b)) for b in data]  # type: ignore[misc]
    tree = {str(at): Tensor("uint8", (EACH_BYTES,), (1,), 0, storage) for at, storage in enumerate(storages)}
    fd = os.open(str(path), os.O_WRONLY | os.O_CREAT)
    torch_write.plan(tree, {"step": 7}).write_to(fd)
    os.close(fd)
    return path


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as f:
        f.seek(at)
        (byte,) = f.read(1)
        f.seek(at)
        f.write(bytes([byte ^ 4]))


def mapped(path: Path) -> memoryview:
    with open(path, "rb") as f:
        return memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))


def test_one_flipped_bit_is_noticed_at_either_end_and_in_the_middle_of_every_tensor(checkpoint: Path) -> None:
    large = [e for e in torch_zip.walk(str(checkpoint)).entries if e.bytes == EACH_BYTES]
    assert len(large) == TENSORS
    for entry in large:
        for at in (entry.offset, entry.offset + EACH_BYTES // 2, entry.offset + EACH_BYTES - 1):
            flip(checkpoint, at)
            with pytest.raises(Damaged) as e:
                torch_zip.read_zip(str(checkpoint))
            assert entry.name in e.value.fields["detail"]
            flip(checkpoint, at)
    assert len(torch_zip.read_zip(str(checkpoint)).tree) == TENSORS


def test_gives_the_bytes_asked_for_wherever_they_begin_and_end(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    with Fetched(str(checkpoint), mapped(checkpoint)) as fetched:
        for begin, count in ((0, 1), (len(whole) - 5, 5), (3, 9 << 20), ((8 << 20) - 1, 2), (7, 0)):
            assert b"".join(fetched.read(begin, count)) == whole[begin : begin + count]


def test_a_python_without_ctypes_reads_it_all_the_same(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert len(torch_zip.read_zip(str(checkpoint)).tree) == TENSORS


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error_and_no_signal(
    checkpoint: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(checkpoint, tmp_path))
    data = mapped(path)
    os.truncate(path, 17 << 20)
    with Fetched(str(path), data) as fetched:
        assert sum(map(len, fetched.read(0, 16 << 20))) == 16 << 20
        with pytest.raises(OSError, match="shorter"):
            list(fetched.read(0, len(data)))


strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def read_under(faults: list[str], path: Path, code: str = READ) -> subprocess.CompletedProcess[str]:
    argv = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=madvise,preadv,preadv2"]
    argv += [word for fault in faults for word in ("-e", "inject=" + fault)] + [sys.executable, "-c", code, str(path)]
    return subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=120)


@pytest.mark.lab
@strace
def test_an_older_system_that_cannot_be_asked_to_fetch_is_read_from_all_the_same(checkpoint: Path) -> None:
    done = read_under(["madvise:error=EINVAL"], checkpoint)
    assert done.stdout.split() == [str(zlib.crc32(checkpoint.read_bytes()))]


@pytest.mark.lab
@strace
@pytest.mark.parametrize("which", [1, 20])
def test_a_sector_that_cannot_be_read_is_an_error_and_no_signal(checkpoint: Path, which: int) -> None:
    done = read_under(["madvise:error=EFAULT", f"preadv,preadv2:error=EIO:when={which}"], checkpoint)
    assert done.returncode == 1 and "OSError: [Errno 5] Input/output error" in done.stderr


@pytest.mark.lab
@strace
def test_wherever_a_sector_under_headers_and_directory_cannot_be_read_it_is_an_error(checkpoint: Path) -> None:
    assert read_under([], checkpoint, FACTS).stdout == "{'step': 7}\n"
    looks = 0
    while (done := read_under([f"preadv,preadv2:error=EIO:when={looks + 1}"], checkpoint, FACTS)).returncode:
        assert "OSError: [Errno 5] Input/output error" in done.stderr
        looks += 1
    assert looks > 3 + TENSORS  # the end, the directory, a header for each entry, the sums


@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts disks")
def test_a_disk_that_cannot_read_the_end_of_a_file_is_an_error_and_no_signal(checkpoint: Path, tmp_path: Path) -> None:
    with machine_faults.disk(tmp_path, 64) as point:
        path = Path(shutil.copy(checkpoint, point))
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            last = struct.pack("i", path.stat().st_size // os.statvfs(point).f_bsize)
            block = struct.unpack("i", fcntl.ioctl(f, FIBMAP, last))[0]
        os.truncate(
            tmp_path / "disk.img", block * os.statvfs(point).f_bsize
        )  # the loop device answers EIO from there on
        for read in (torch_zip.facts, torch_zip.is_ours, torch_zip.read_zip):
            with pytest.raises(OSError) as e:
                read(str(path))
            assert e.value.errno == errno.EIO
