"""Launchers and `doctor` on a real sshd box: the same promises as here, and what only a box can lack."""

from collections.abc import Iterator
from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.launcher import systemd
from sojourn.backends.transport import ssh
from sojourn.core.values import Place, Pulse, Site
from sojourn.store.home import Store
from sojourn.testing.contracts.launcher import LONG, ShellLauncherContract, at
from sojourn.verbs.context import Context
from sojourn.verbs.explain.doctor import Doctor, doctor
from tests.lab.lab import Box

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ssh_config")]
SITE = Site("ssh:box1", transport="ssh", address="box1")


@pytest.fixture
def transport() -> ssh.Backend:
    return ssh.Backend(Place(SITE))


@pytest.fixture
def root(box: Box) -> Iterator[str]:
    folder = "/root/it's a base"
    yield f"{folder}/runs/digits-lr0.3"
    box.sh(f'rm -rf "{folder}"')


@pytest.fixture(params=["setsid", "tmux"])
def launcher(request: pytest.FixtureRequest) -> Any:
    return backends.get("launcher", request.param)(SITE)


class TestContractOverSsh(ShellLauncherContract):
    """The very same suite as on this machine."""


@pytest.mark.campaign(keep=1)
def test_a_cut_link_leaves_the_pulse_unknown_and_ends_nothing(
    box: Box, launcher: Any, transport: ssh.Backend, root: str
) -> None:
    handle = launcher.start(at(transport), LONG, root)
    box.fault("cut")
    mute = transport.call(["true"], timeout_s=4)
    assert not hasattr(mute, "rc")
    box.heal()
    assert launcher.pulse(at(transport), handle) is Pulse.ALIVE
    launcher.stop(at(transport), handle, 2.0)


def asked(site: str = "ssh:box1") -> Doctor:
    with Context(Store()) as ctx:
        return doctor(ctx, site)


def test_the_doctor_sees_the_box_and_not_this_machine(box: Box) -> None:
    answer = asked()
    assert answer.facts["host"] == "box1" and answer.facts["base"] == "/root/.local/share/sojourn"
    assert not [f for f in answer.findings if f.severity == "blocker"], answer.findings


def test_a_systemd_that_is_not_pid_1_there_is_refused_for_real(box: Box, transport: ssh.Backend, root: str) -> None:
    with pytest.raises(systemd.NoSystemd) as caught:
        systemd.Backend(SITE).start(at(transport), ["touch", "/tmp/made-by-systemd"], root)
    assert caught.value.message.startswith("ssh:box1 has no systemd user instance")
    assert box.sh("ls /tmp/made-by-systemd 2>&1 || true").startswith("ls: cannot")


def test_a_box_without_python_is_a_blocker_and_not_an_error(box: Box) -> None:
    asked()  # puts the keeper there, which needs none
    hide = "for p in /usr/bin/python3* /usr/local/bin/python3*; do [ ! -e $p ] || {} ; done"
    box.sh(hide.replace("{}", "mv $p $p.hidden"))
    try:
        answer = asked()
    finally:
        box.sh("for p in /usr/bin/*.hidden /usr/local/bin/*.hidden; do [ ! -e $p ] || mv $p ${p%.hidden}; done")
    assert [f.id for f in answer.findings] == ["no-python"] and answer.exit_status == 11


def test_a_home_that_cannot_be_written_is_a_blocker(box: Box) -> None:
    box.user("lodger", "/bin/sh")
    box.sh("chown -R root /home/lodger; chmod 755 /home/lodger /home/lodger/.ssh; chmod 644 /home/lodger/.ssh/*")
    try:
        answer = asked("ssh:lodger@box1")
    finally:
        box.sh("chown -R lodger /home/lodger")
    assert [f.id for f in answer.findings] == ["base-not-writable"] and answer.exit_status == 11


def test_a_full_disk_is_a_blocker_and_the_memory_limit_of_the_box_a_warning(box: Box) -> None:
    assert [f.id for f in asked().findings] == ["memory-limit"]
    box.sh("cat /dev/zero > /root/full 2>/dev/null || true")
    try:
        found = [f.id for f in asked().findings]
    finally:
        box.sh("rm /root/full")
    assert found == ["disk-full", "memory-limit"]
