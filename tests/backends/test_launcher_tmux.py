"""The launcher `tmux` with a real tmux: the user can look on, and nothing that happens to the window ends a run."""

import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.launcher import tmux
from sojourn.backends.transport import local
from sojourn.core.ports import Handle
from sojourn.core.values import Pulse, Site
from sojourn.testing.contracts.launcher import LONG, ShellLauncherContract, at

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="missing Debian package: tmux")


@pytest.fixture(autouse=True)
def own_server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of the test's own for tmux sockets; the server in it is ended."""
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path_factory.mktemp("t")))
    program = shutil.which("tmux") or "tmux"
    yield
    subprocess.run([program, "-L", "sojourn", "kill-server"], capture_output=True, timeout=60)


@pytest.fixture
def transport() -> local.Backend:
    return local.Backend()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'it\'s a "base"' / "runs" / "digits-lr0.3")


@pytest.fixture(params=["setsid", "tmux"])
def launcher(request: pytest.FixtureRequest) -> Any:
    return backends.get("launcher", request.param)(Site("local"))


class TestContract(ShellLauncherContract):
    """Both launchers that start a plain process."""


@pytest.fixture
def shown(transport: local.Backend, root: str) -> Iterator[Handle]:
    """A process that runs for minutes and a session that shows its first log."""
    logs = Path(root) / "logs"
    logs.mkdir(parents=True)
    (logs / "1.log").write_text("epoch 1\n")
    handle = tmux.Backend().start(at(transport), LONG, root)
    assert isinstance(handle, Handle)
    yield handle
    tmux.Backend().stop(at(transport), handle, 2.0)


def window(session: str = "digits-lr0+3") -> str:
    argv = ["tmux", "-L", "sojourn", "capture-pane", "-p", "-t", session]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout


def sessions() -> list[str]:
    argv = ["tmux", "-L", "sojourn", "list-sessions", "-F", "#{session_name}"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.split()


def until(holds: Callable[[], object], within_s: float = 240.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, window()
        time.sleep(0.05)


def test_the_window_shows_the_log_as_it_grows_and_the_next_attempt_after_it(shown: Handle, root: str) -> None:
    until(lambda: "epoch 1" in window())
    with open(f"{root}/logs/1.log", "a") as f:
        f.write("epoch 2\n")
    until(lambda: "epoch 2" in window())
    Path(f"{root}/logs/2.log").write_text("again from epoch 2\n")
    until(lambda: "-- attempt 2 of digits-lr0+3\nagain from epoch 2" in window())


def test_the_attach_command_attaches_to_the_run(shown: Handle) -> None:
    assert shown.facts["attach"] == "tmux -L sojourn attach -t digits-lr0+3"
    until(lambda: "epoch 1" in window())
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("sh", ["sh", "-c", "exec " + shown.facts["attach"]])
    seen = b""
    while b"epoch 1" not in seen:
        seen += os.read(fd, 4096)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)


def test_over_ssh_the_attach_command_goes_there_first() -> None:
    box = Site("gpu", transport="ssh", address="me@box.example:2222")
    assert tmux.Backend(box)._attach("digits") == ("ssh -t -p 2222 -l me box.example tmux -L sojourn attach -t digits")


@pytest.mark.parametrize("end", [["kill-session", "-t", "digits-lr0+3"], ["kill-server"]])
def test_closing_the_window_or_ending_tmux_ends_no_run(transport: local.Backend, shown: Handle, end: list[str]) -> None:
    until(lambda: "epoch 1" in window())
    subprocess.run(["tmux", "-L", "sojourn", *end], check=True, timeout=60)
    until(lambda: not sessions())
    assert tmux.Backend().pulse(at(transport), shown) is Pulse.ALIVE


def test_keys_typed_into_the_window_end_neither_it_nor_the_run(transport: local.Backend, shown: Handle) -> None:
    until(lambda: "epoch 1" in window())
    subprocess.run(["tmux", "-L", "sojourn", "send-keys", "-t", "digits-lr0+3", "C-c", "C-z", "C-c"], timeout=60)
    time.sleep(1.5)  # time enough for a script that obeyed to be gone
    assert sessions() == ["digits-lr0+3"]
    assert tmux.Backend().pulse(at(transport), shown) is Pulse.ALIVE


def test_the_session_ends_by_itself_with_its_keeper(transport: local.Backend, shown: Handle) -> None:
    assert sessions() == ["digits-lr0+3"]
    tmux.Backend().stop(at(transport), shown, 2.0)
    until(lambda: not sessions())


def test_a_second_start_uses_the_session_that_is_there(transport: local.Backend, shown: Handle, root: str) -> None:
    again = tmux.Backend().start(at(transport), ["true"], root)
    assert isinstance(again, Handle) and again.facts["attach"] == shown.facts["attach"]
    assert sessions() == ["digits-lr0+3"]


def test_the_users_own_tmux_settings_cannot_end_the_session(
    private_home: Path, transport: local.Backend, root: str
) -> None:
    (private_home / ".tmux.conf").write_text("set -g destroy-unattached on\nnonsense\n")
    handle = tmux.Backend().start(at(transport), LONG, root)
    assert isinstance(handle, Handle)
    time.sleep(1.5)  # a session that nobody looks at would be gone by now
    assert sessions() == ["digits-lr0+3"]
    tmux.Backend().stop(at(transport), handle, 2.0)


def test_where_there_is_no_tmux_nothing_is_started(
    transport: local.Backend, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "sed", "mkdir", "cat", "touch", "setsid"):
        (tools / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(tmux.NoTmux) as caught:
        tmux.Backend(Site("gpu")).start(at(transport), ["touch", str(tmp_path / "made")], root)
    said = caught.value.message
    assert said == "gpu is set to launch runs with tmux, which is not installed there. Nothing was started."
    assert caught.value.exit_status == 5 and "setsid" in caught.value.next
    assert not (tmp_path / "made").exists()


def test_where_tmux_makes_no_session_the_run_goes_on_and_it_is_said(
    transport: local.Backend, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", "/proc/1")  # nobody can make a socket there
    handle = tmux.Backend().start(at(transport), LONG, root)
    assert isinstance(handle, Handle)
    try:
        assert tmux.Backend().pulse(at(transport), handle) is Pulse.ALIVE
        assert "attach" not in handle.facts
        assert handle.facts["remark"].startswith("tmux shows no window for it: ")
    finally:
        tmux.Backend().stop(at(transport), handle, 2.0)
