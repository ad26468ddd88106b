"""Faults of a machine, planted for real: memory and CPU limits, full and read-only disks, a mount that never answers.

Each is a context manager that leaves nothing behind. They need root; what else they need, and this machine lacks, they
skip for, by name.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_V1 = Path("/sys/fs/cgroup")


class Group:
    """A control group of version 1; `within` is what starts a program in it."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = folders
        joins = "".join('echo $$ > "%s/cgroup.procs"; ' % folder for folder in folders.values())
        self.within = ["sh", "-c", joins + 'exec "$@"', "x"]


@contextlib.contextmanager
def group(**limits: str) -> Iterator[Group]:
    """`memory__limit_in_bytes="80M"`: controller, two underscores, file and what to write there."""
    need_root()
    folders: dict[str, Path] = {}
    for key in limits:
        controller = key.partition("__")[0]
        top = _V1 / controller
        if not (top / "cgroup.procs").exists():
            pytest.skip("missing: the %s controller of control groups version 1" % controller)
        folders[controller] = top / ("sojourn-fault-%d" % os.getpid())
    for folder in folders.values():
        folder.mkdir()
    try:
        for key, value in limits.items():
            controller, _, name = key.partition("__")
            (folders[controller] / ("%s.%s" % (controller, name))).write_text(value)
        yield Group(folders)
    finally:
        for folder in folders.values():
            deadline = time.monotonic() + 30
            while (pids := (folder / "cgroup.procs").read_text().split()) and time.monotonic() < deadline:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.02)
            folder.rmdir()


@contextlib.contextmanager
def disk(folder: Path, mib: int, inodes: int = 0) -> Iterator[Path]:
    """A small ext4 of its own, mounted below `folder`."""
    need_root()
    for program in ("mkfs.ext4", "losetup"):
        if not shutil.which(program):
            pytest.skip("missing Debian package with %s" % program)
    image, point = folder / "disk.img", folder / "disk"
    with open(image, "wb") as f:
        f.truncate(mib << 20)
    count = ["-N", str(inodes)] if inodes else []
    run("mkfs.ext4", "-q", "-m", "0", *count, str(image))
    point.mkdir()
    run("mount", "-o", "loop", str(image), str(point))
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)
        image.unlink()


@contextlib.contextmanager
def dead_mount(folder: Path) -> Iterator[Path]:
    """A FUSE mount whose server never says a word: whoever asks it anything waits for ever, and can be killed."""
    need_root()
    if not os.path.exists("/dev/fuse"):
        pytest.skip("missing: /dev/fuse")
    point = folder / "dead"
    point.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % server
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"dead", os.fsencode(point), b"fuse", 0, options.encode()):
        error = ctypes.get_errno()
        os.close(server)
        pytest.skip("missing: FUSE mounts (%s)" % os.strerror(error))
    try:
        yield point
    finally:
        run("umount", "-l", str(point))
        os.close(server)


def abort(point: Path) -> None:
    """What a failing disk does to an ext4: its journal is aborted, and it is read-only from then on."""
    run("mount", "-o", "remount,abort", str(point))


def takes_a_file(point: Path) -> bool:
    """Whether a file can be written in this folder."""
    try:
        (point / "x").write_bytes(b"x")
    except OSError:
        return False
    return True


def need_root() -> None:
    """Leave the test out for everybody else."""
    if os.getuid():
        pytest.skip("needs root")


def run(*argv: str) -> None:
    """One command that must succeed."""
    done = subprocess.run(argv, capture_output=True, timeout=60)
    assert done.returncode == 0, (argv, done.stderr.decode())
