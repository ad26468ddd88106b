"""Copies over ssh: whole or not at all, resumed where they broke off, and nothing asked of the box but a shell."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sojourn.backends.ssh import copy as ssh_copy
from sojourn.backends.transport.ssh import Backend
from sojourn.core.values import NoAnswer, Place, Site
from sojourn.wire.errors import WorldError
from tests.lab import faults
from tests.lab.lab import Box

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ssh_config")]
WINDOW_BYTES = 4 << 20  # what may be under way inside ssh, sshd and the kernels when a link breaks
TARGET = "/workspace/put here/a 'file'"


def backend(address: str = "box1", **options: object) -> Backend:
    return Backend(Place(Site(address, transport="ssh", address=address, options=options)))


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Twelve megabytes of noise, not a multiple of any block."""
    path = tmp_path / "big"
    path.write_bytes(os.urandom(12_345_679))
    return path


@pytest.fixture(autouse=True)
def clean(box: Box) -> None:
    box.sh("rm -rf /workspace/*; rm -f /root/*")


def there(box: Box, path: str = TARGET) -> str:
    quoted = path.replace("'", "'\\''")
    return box.sh(f"sha256sum '{quoted}' 2>/dev/null | cut -c1-64 || true").strip().lstrip("\\")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_left(box: Box, part: str) -> None:
    """Wait until nobody writes to a path with this part any more: the box reads on what has already come."""
    deadline = time.monotonic() + 240
    while writers := [line for line in box.processes("dd of=") if part in line]:
        assert time.monotonic() < deadline, writers
        time.sleep(0.05)


def listing(box: Box) -> list[str]:
    return box.sh("find /workspace -type f | sort").splitlines()


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("size", [0, 1, 65_536, (1 << 20) - 1, (1 << 20) + 1, 5_000_000])
def test_a_file_arrives_whole_with_its_folders_and_comes_back_whole(box: Box, tmp_path: Path, size: int) -> None:
    local = tmp_path / "local"
    local.write_bytes(os.urandom(size))
    assert backend().put(str(local), TARGET) is None
    assert there(box) == sha256(local) and len(listing(box)) == 1
    assert backend().get(TARGET, str(tmp_path / "back")) == size
    assert (tmp_path / "back").read_bytes() == local.read_bytes()


def test_a_second_put_of_the_same_bytes_sends_none(box: Box, big: Path) -> None:
    assert backend().put(str(big), TARGET) is None
    box.fault("rate", "1")
    box.sh("chmod 400 '/workspace/put here'/*; touch -d '2020-01-01' '/workspace/put here'/*")
    assert backend().put(str(big), TARGET) is None
    assert "2020" in box.sh("ls -l '/workspace/put here'/*")  # not written again


def test_other_bytes_replace_the_file_at_once(box: Box, big: Path, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    assert backend().put(str(tmp_path / "old"), TARGET) is None
    assert backend().put(str(big), TARGET) is None
    assert there(box) == sha256(big) and len(listing(box)) == 1


def test_an_executable_file_stays_executable_and_none_is_for_others(box: Box, tmp_path: Path) -> None:
    local = tmp_path / "script"
    local.write_text("#!/bin/sh\n")
    local.chmod(0o755)
    assert backend().put(str(local), "/workspace/script") is None
    assert backend().put(str(local).replace("script", "script"), "/workspace/deep/script") is None
    assert box.sh("stat -c %a /workspace/script /workspace/deep").split() == ["700", "700"]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("after_bytes", [20_000, 5_000_000, 11_000_000])
def test_a_put_that_breaks_goes_on_where_it_stood(box: Box, big: Path, after_bytes: int) -> None:
    with faults.server(faults.relay(box.address, 22, after_bytes, up=True)) as port:
        broken = backend(f"127.0.0.1:{port}", sharing="off").put(str(big), TARGET, timeout_s=200)
    is_left(box, "/workspace/put here")
    assert isinstance(broken, NoAnswer) and there(box) == ""
    parts = [line for line in listing(box) if line.endswith(".part")]
    kept = int(box.sh("stat -c %s '/workspace/put here'/*.part")) if parts else 0
    assert after_bytes - WINDOW_BYTES < kept <= after_bytes
    before = received(box)
    assert backend().put(str(big), TARGET) is None
    assert there(box) == sha256(big) and len(listing(box)) == 1
    # What was there was not sent again. A busy machine sends smaller packets: each has a head of its own.
    assert received(box) - before < 1.1 * (big.stat().st_size - kept) + 500_000


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("after_bytes", [6_000, 5_000_000, 12_000_000])
def test_a_get_that_breaks_leaves_good_bytes_and_goes_on_behind_them(
    box: Box, big: Path, tmp_path: Path, after_bytes: int
) -> None:
    assert backend().put(str(big), TARGET) is None
    back = tmp_path / "back"
    with faults.server(faults.relay(box.address, 22, after_bytes, up=False)) as port:
        broken = backend(f"127.0.0.1:{port}", sharing="off").get(TARGET, str(back), timeout_s=200)
    assert isinstance(broken, NoAnswer)
    kept = back.stat().st_size if back.exists() else 0
    assert after_bytes - WINDOW_BYTES < kept <= after_bytes
    assert not kept or back.read_bytes() == big.read_bytes()[:kept]
    assert backend().get(TARGET, str(back), offset=kept) == big.stat().st_size - kept
    assert back.read_bytes() == big.read_bytes()


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("offset", [0, 1, 65_536, 12_345_678, 12_345_679, 99_999_999])
def test_a_get_begins_at_any_offset(box: Box, big: Path, tmp_path: Path, offset: int) -> None:
    assert backend().put(str(big), TARGET) is None
    assert backend().get(TARGET, str(tmp_path / "back"), offset=offset) == max(0, 12_345_679 - offset)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()[offset:]


@pytest.mark.campaign
@pytest.mark.parametrize("way", ["put", "get"])
def test_a_link_that_falls_silent_in_the_middle_is_noticed_soon(box: Box, big: Path, tmp_path: Path, way: str) -> None:
    back = tmp_path / "back"
    assert way == "put" or backend().put(str(big), TARGET) is None
    box.wire(rate=4)  # so that the copy takes half a minute

    def cut() -> None:
        moving = (lambda: box.processes("dd of=")) if way == "put" else (lambda: back.exists())
        while not moving():
            time.sleep(0.1)
        time.sleep(1)
        box.fault("cut")

    thread = threading.Thread(target=cut)
    thread.start()
    answer = backend().put(str(big), TARGET) if way == "put" else backend().get(TARGET, str(back))
    thread.join()
    assert isinstance(answer, NoAnswer) and answer.kind in ("timeout", "reset") and answer.sent


def test_a_killed_client_leaves_nothing_running_and_no_file_of_that_name(box: Box, big: Path) -> None:
    box.wire(rate=4)
    code = (
        "import sys; from sojourn.core.values import Place, Site; from sojourn.backends.transport.ssh import Backend;"
        f"Backend(Place(Site('b', transport='ssh', address='box1'))).put({str(big)!r}, '/workspace/huge')"
    )
    client = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 240
    while not box.processes("dd of=/workspace/huge"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.send_signal(signal.SIGKILL)
    client.wait()
    is_left(box, "/workspace/huge")
    assert all(line.endswith(".part") for line in listing(box))


def test_two_puts_of_the_same_file_at_once_do_no_harm(box: Box, big: Path) -> None:
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(backend().put(str(big), TARGET))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [None] * 3 and there(box) == sha256(big) and len(listing(box)) == 1


def test_a_part_with_other_bytes_in_it_is_found_out_and_sent_anew(box: Box, big: Path) -> None:
    part = ssh_copy.part_name("/workspace/big", sha256(big))
    box.sh(f"head -c 5000000 /dev/zero > {part}")
    assert backend().put(str(big), "/workspace/big") is None
    assert there(box, "/workspace/big") == sha256(big) and len(listing(box)) == 1


def refused(way: str, remote: str, local: Path) -> str:
    with pytest.raises(WorldError) as caught:
        backend().put(str(local), remote) if way == "put" else backend().get(remote, str(local))
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_full_disk_is_said_and_the_half_made_file_taken_away(box: Box, big: Path) -> None:
    box.sh("mount -t tmpfs -o size=5m tmpfs /mnt")
    assert "No space left on device" in refused("put", "/mnt/deep/file", big)
    assert box.sh("find /mnt -type f") == ""
    big.write_bytes(b"small")
    assert backend().put(str(big), "/mnt/deep/file") is None


def test_a_disk_without_inodes_is_said(box: Box, big: Path) -> None:
    box.sh("mount -t tmpfs -o size=50m,nr_inodes=4 tmpfs /mnt; touch /mnt/a /mnt/b /mnt/c")
    assert "No space left on device" in refused("put", "/mnt/file", big)


def test_a_read_only_disk_is_said(box: Box, big: Path) -> None:
    box.sh("mount -t tmpfs -o ro tmpfs /mnt")
    assert "Read-only file system" in refused("put", "/mnt/file", big)


def test_a_folder_in_the_place_of_a_file_is_said(box: Box, big: Path, tmp_path: Path) -> None:
    box.sh("mkdir /workspace/folder")
    assert "Is a directory" in refused("put", "/workspace/folder", big)
    assert "Is a directory" in refused("get", "/workspace/folder", tmp_path / "back")


def test_a_file_that_is_not_there_is_said(box: Box, tmp_path: Path) -> None:
    assert "/workspace/none" in refused("get", "/workspace/none", tmp_path / "back")
    assert "nowhere" in refused("put", "/workspace/x", tmp_path / "nowhere")


def test_a_file_that_may_not_be_read_is_said(box: Box, tmp_path: Path) -> None:
    box.user("stranger", "/bin/sh")
    box.sh("echo secret > /root/mine; chmod 700 /root")
    with pytest.raises(WorldError):
        backend("stranger@box1").get("/root/mine", str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()


@pytest.mark.campaign
def test_a_box_with_nothing_but_busybox_will_do(box: Box, big: Path, tmp_path: Path) -> None:
    box.sh("mkdir -p /usr/busy; busybox --install -s /usr/busy")
    box.user("busy", "/bin/bash")
    box.sh("echo 'PATH=/usr/busy' > /home/busy/.bashrc; mkdir -p /workspace/b; chown busy /workspace/b")
    to = backend("busy@box1")
    assert to.put(str(big), "/workspace/b/big") is None and to.put(str(big), "/workspace/b/big") is None
    assert there(box, "/workspace/b/big") == sha256(big)
    assert to.get("/workspace/b/big", str(tmp_path / "back"), offset=77) == big.stat().st_size - 77
    assert (tmp_path / "back").read_bytes() == big.read_bytes()[77:]


def received(box: Box) -> int:
    """Bytes that the box's network card received so far."""
    return int(
        box.sh("cat /sys/class/net/eth0/statistics/rx_bytes 2>/dev/null || awk '/eth0/{print $2}' /proc/net/dev")
    )
