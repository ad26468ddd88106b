"""The launcher `systemd`: refused for real where there is none; else against a STAND-IN in tests/fakes/bin."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from sojourn.backends.launcher import systemd
from sojourn.backends.transport import local
from sojourn.core.ports import Handle
from sojourn.core.values import Pulse, Site
from sojourn.testing.contracts.launcher import LONG, ShellLauncherContract, at

FAKES = Path(__file__).parent.parent / "fakes" / "bin"
GPU = Site("gpu")


@pytest.fixture
def transport() -> local.Backend:
    return local.Backend()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'it\'s a "base" with $HOME and 5%n' / "runs" / "digits-lr0.3")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in systemd that runs, with lingering on."""
    folder = tmp_path / "stand-in"
    folder.mkdir()
    (folder / "state").write_text("running\n")
    (folder / "linger").write_text("yes\n")
    monkeypatch.setenv("STANDIN_SYSTEMD", str(folder))
    monkeypatch.setenv("PATH", f"{FAKES}:{os.environ['PATH']}")
    return folder


@pytest.mark.usefixtures("stand_in")
class TestContractWithAStandIn(ShellLauncherContract):
    @pytest.fixture
    def launcher(self) -> systemd.Backend:
        return systemd.Backend(GPU)


def test_a_machine_whose_pid_1_is_no_systemd_is_refused_for_real(
    transport: local.Backend, root: str, tmp_path: Path
) -> None:
    if Path("/proc/1/comm").read_text().strip() == "systemd":
        return  # then there is nothing to refuse here: the stand-in's `offline` below shows the same
    with pytest.raises(systemd.NoSystemd) as caught:
        systemd.Backend(GPU).start(at(transport), ["touch", str(tmp_path / "made")], root)
    assert caught.value.message.startswith("gpu has no systemd user instance to start a unit with: ")
    assert "\n" not in caught.value.message and "setsid" in caught.value.next
    assert not (tmp_path / "made").exists() and not Path(root).exists()


@pytest.mark.parametrize("state", ["offline", "stopping", "Failed to connect to bus: No medium found"])
def test_a_systemd_that_does_not_run_is_refused_with_its_own_words(
    stand_in: Path, transport: local.Backend, root: str, state: str
) -> None:
    (stand_in / "state").write_text(state + "\n")
    with pytest.raises(systemd.NoSystemd, match=f"systemctl --user says: {state}"):
        systemd.Backend(GPU).start(at(transport), ["true"], root)


def test_without_lingering_nothing_is_started_and_the_command_that_turns_it_on_is_named(
    stand_in: Path, transport: local.Backend, root: str
) -> None:
    (stand_in / "linger").write_text("no\n")
    user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    if Path(f"/var/lib/systemd/linger/{user}").exists():
        return  # it is on for this user, whatever a stand-in says
    with pytest.raises(systemd.NoLinger) as caught:
        systemd.Backend(GPU).start(at(transport), ["true"], root)
    assert caught.value.next.startswith(f"loginctl enable-linger {user}")
    assert not (stand_in / "argv").exists()


@pytest.mark.parametrize(("version", "has_oom"), [("252", True), ("239", False)])
def test_the_unit_ends_nothing_but_the_keeper_itself(
    stand_in: Path, transport: local.Backend, root: str, version: str, has_oom: bool
) -> None:
    (stand_in / "version").write_text(version)
    handle = systemd.Backend(GPU).start(at(transport), LONG, root)
    assert isinstance(handle, Handle)
    try:
        words = (stand_in / "argv").read_text().split("\0")
        options = words[: words.index("--")]
        assert {"--user", "--collect", f"--unit={handle.facts['unit']}", "--property=KillMode=process"} <= set(options)
        assert ("--property=OOMPolicy=continue" in options) is has_oom
        assert f"--setenv=PATH={os.environ['PATH']}" in options
        assert handle.native == handle.facts["unit"] == systemd.unit_name(root)
    finally:
        systemd.Backend(GPU).stop(at(transport), handle, 2.0)


def test_a_keeper_that_was_killed_can_be_started_again_under_the_same_unit(
    stand_in: Path, transport: local.Backend, root: str
) -> None:
    launcher = systemd.Backend(GPU)
    first = launcher.start(at(transport), LONG, root)
    assert isinstance(first, Handle)
    os.kill(first.facts["pid"], signal.SIGKILL)
    while launcher.pulse(at(transport), first) is not Pulse.GONE:
        pass
    second = launcher.start(at(transport), LONG, root)
    assert isinstance(second, Handle) and second.native == first.native
    assert launcher.pulse(at(transport), second) is Pulse.ALIVE
    launcher.stop(at(transport), second, 2.0)


def test_units_of_two_bases_with_the_same_run_differ() -> None:
    assert systemd.unit_name("/a/runs/digits") != systemd.unit_name("/b/runs/digits")
