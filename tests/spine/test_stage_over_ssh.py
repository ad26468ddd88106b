"""`stage` on a box that only has a shell, a Python and an sshd: both disks are the box's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Box
from tests.spine.conftest import Desk

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
SRC, DST = "/root/stage-source", "/dev/shm/stage-fast/copy"  # a disk of the box, and its 64 MiB of memory
ARGV = ("stage", SRC, DST, "--site", "ssh:box1", "--json")


@pytest.fixture
def away(ssh_config: Path, box: Box, desk: Desk) -> Iterator[Desk]:
    """A user whose box has a data set, and a small fast disk."""
    box.clear()
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    box.sh(f"mkdir -p {SRC}/a && head -c 20000000 /dev/urandom > {SRC}/big")
    box.sh(f"for i in $(seq 500); do echo $i > {SRC}/a/$i; done")
    yield desk
    box.heal()
    box.sh(f"rm -rf {SRC} /dev/shm/stage-fast")
    box.clear()


@pytest.mark.campaign
def test_data_of_a_box_is_staged_there_once_and_a_dead_line_says_nothing(box: Box, away: Desk) -> None:
    first = away(*ARGV).json
    assert (first["what"], first["ok"], first["copied_files"], first["mount"]["kind"]) == ("staged", True, 501, "tmpfs")
    box.sh(f"diff -r {SRC} {DST}")
    assert away(*ARGV).json["what"] == "unchanged"
    box.fault("cut")
    away(*ARGV, rc=3)
    box.heal()
    box.sh(f"echo new > {SRC}/a/7")
    assert away(*ARGV).json["copied_files"] == 1
    box.sh(f"diff -r {SRC} {DST}; head -c 80000000 /dev/zero | tr '\\0' x > {SRC}/too-big")
    away(*ARGV, rc=5)
    away("stage", "/srv/missing", DST, "--site", "ssh:box1", rc=2)
