"""`verify` of what never ends or leads elsewhere: said in words, at once, and nothing of it read."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.proof import loading_process, regular
from sojourn.backends.proof.proof import Prover
from sojourn.verbs.retrieve import below
from sojourn.verbs.retrieve.verify import NoSuchPath, Verified, verify


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A test that hangs ends the whole process: so much is far more than any of them takes."""
    watch = threading.Timer(300, os._exit, (1,))
    watch.start()
    yield
    watch.cancel()


def problems(found: Verified) -> dict[str, str]:
    return {os.path.basename(a.path): a.problem for a in found.artifacts if not a.ok}


@pytest.mark.parametrize("target", ["/", "/etc", "/etc/passwd", "/proc/kmsg", "/dev/zero"])
def test_a_named_link_that_leads_out_is_refused(target: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    found = verify([str(tmp_path / "link")])
    assert (problems(found), found.exit_status) == ({"link": "escapes-root"}, 1)
    assert found.files == 0
    assert problems(verify([str(tmp_path / "link") + "/"])) if os.path.isdir(target) else True


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_named_device_is_refused(path: str) -> None:
    assert [a.problem for a in verify([path]).artifacts] == ["escapes-root"]


@pytest.mark.campaign(keep=1)
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/environ", "/proc/self", "/proc", "/sys/kernel"])
def test_what_the_kernel_makes_up_is_refused(path: str) -> None:
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    found = verify([path])
    assert [(a.problem, "the kernel generates" in a.detail) for a in found.artifacts] == [("escapes-root", True)]
    assert found.bytes == 0


def test_pipes_sockets_and_devices_are_named_and_not_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    os.mkfifo(root / "pipe.pt")
    (root / "zero.npy").symlink_to("/dev/zero")
    (root / "far").symlink_to("/")
    (root / "good.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(root / "s"))
        found = verify([str(root)])
        assert verify([str(root / "s")]).artifacts[0].problem == "escapes-root"
    assert problems(found) == dict.fromkeys(("pipe.pt", "zero.npy", "far", "s"), "escapes-root")
    assert (found.files, len(found.artifacts)) == (1, 5)
    assert verify([str(root / "pipe.pt")]).artifacts[0].problem == "escapes-root"


def test_a_pipe_or_device_as_manifest_is_none(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    os.mkfifo(tmp_path / "m.json")
    for manifest in (str(tmp_path / "m.json"), "/dev/zero", str(tmp_path)):
        with pytest.raises(NoSuchPath):
            verify([str(tmp_path / "root")], manifest)


def test_another_file_system_is_said_and_read_only_where_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for a mount: nobody may mount here, so the number of the device is what differs."""
    root = tmp_path / "root"
    (root / "mounted").mkdir(parents=True)
    (root / "mounted" / "a.json").write_text("{}")
    (root / "b.json").write_text("{}")
    real = os.stat

    def other(path: object, **more: object) -> os.stat_result:
        seen = real(path, **more)  # type: ignore[call-overload]
        return os.stat_result((seen[0], seen[1], seen[2] + 1, *seen[3:])) if str(path) == str(root) else seen

    monkeypatch.setattr(below.os, "stat", other)
    found = below.below(str(root))
    assert (found.found, [row[:2] for row in found.closed]) == (("b.json",), [("mounted", "unsupported")])
    assert "--cross-mounts" in found.closed[0][2]
    assert below.below(str(root), is_across=True).found == ("b.json", "mounted/a.json")


def test_a_reading_that_brings_nothing_is_ended_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose reading hangs, as on a share that is gone: its process is stopped while it reads."""
    (tmp_path / "a.json").write_text("[" + "1," * 400_000 + "1]")
    stops = loading_process.LoadingProcess._say

    def stopped(self: loading_process.LoadingProcess, value: object) -> None:
        stops(self, value)  # type: ignore[arg-type]
        os.kill(self.pid, 19)

    monkeypatch.setattr(loading_process.LoadingProcess, "_say", stopped)
    monkeypatch.setattr(regular, "hashed", lambda path, size: pytest.fail("it was read once more"))
    with Prover(1) as prover:
        prover._loading._time_s = 1.0
        proof = prover.prove(str(tmp_path / "a.json"), "a.json", (800_002, "0" * 64))
    assert (proof.problem, proof.sha256, "was ended" in proof.detail) == ("unsupported", "", True)


def test_an_open_waits_for_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_bytes(b"x" * 10)
    for path, follow in ((tmp_path / "pipe", True), (tmp_path / "link", False), (tmp_path, True)):
        with pytest.raises(OSError):
            os.close(regular.open_file(str(path), follow=follow))
    assert regular.hashed(str(tmp_path / "file"), 4)[0] == 5  # it grew: one byte more than expected is enough to say so


@pytest.mark.campaign
def test_the_command_says_it(tmp_path: Path) -> None:
    (tmp_path / "all").symlink_to("/")
    ended = subprocess.run(
        [sys.executable, "-m", "sojourn", "verify", str(tmp_path / "all")], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    assert "leads out of its folder" in " ".join(ended.stdout.split())
