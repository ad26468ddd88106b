"""Disks of their own for tests of full and broken ones."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """mount(options, device, kind) mounts a disk of its own in the test's folder. Only root may."""
    mounted: list[Path] = []

    def make(options: str, device: str = "tmpfs", kind: str = "tmpfs") -> Path:
        point = tmp_path / ("disk%d" % len(mounted))
        point.mkdir()
        subprocess.run(["mount", "-t", kind, "-o", options, device, str(point)], check=True)
        mounted.append(point)
        return point

    yield make
    for point in reversed(mounted):
        subprocess.run(["umount", "-l", str(point)], check=True)
