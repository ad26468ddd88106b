"""Two real disks, and a data set on the slow one."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def fast() -> Iterator[Path]:
    """A folder on another disk than the tests' own: in memory."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or not os.access(shm, os.W_OK):
        pytest.skip("missing: a writable /dev/shm")
    folder = shm / f"sojourn-stage-{uuid.uuid4().hex}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slow(tmp_path: Path, fast: Path) -> Path:
    """The data set: files of several sizes, in folders."""
    source = tmp_path / "slow"
    if os.stat(tmp_path).st_dev == os.stat(fast).st_dev:
        pytest.skip("missing: a second file system")
    (source / "a/b").mkdir(parents=True)
    for number in range(40):
        (source / f"a/{number}.txt").write_text(f"{number}\n" * number)
    (source / "a/b/data.bin").write_bytes(os.urandom(3 << 20))
    return source
