"""Every fault of a link or a box, made for real: the transport says which, says it in time, and never says "dead"."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh import session as ssh_session
from sojourn.backends.transport.ssh import Backend
from sojourn.core.values import Ended, NoAnswer, Place, Site
from tests.lab import faults
from tests.lab.lab import Box

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ssh_config")]
PATIENCE_S, SOON_S = 240.0, 200.0  # hang guards: what a call may take, and what is well before that


def backend(address: str = "box1", **options: object) -> Backend:
    return Backend(Place(Site(address, transport="ssh", address=address, options=options)))


def refused_answer(answer: Ended | NoAnswer, kind: str, sent: bool) -> NoAnswer:
    """The NoAnswer, which must be of this kind and carry one line of what to do."""
    assert isinstance(answer, NoAnswer), answer
    assert (answer.kind, answer.sent) == (kind, sent), answer
    assert answer.detail and answer.next_step and "\n" not in answer.detail + answer.next_step
    return answer


def timed(call: Callable[[], Ended | NoAnswer]) -> tuple[Ended | NoAnswer, float]:
    began = time.monotonic()
    return call(), time.monotonic() - began


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh gives a connection up after 2 s, long before the call does, so that it has the time to say why."""
    monkeypatch.setattr(ssh_argv, "CONNECT_S", 2)


def answers_again(box: Box) -> None:
    """What was `unreachable` is there again as soon as the fault is mended."""
    box.heal()
    deadline = time.monotonic() + 240
    while not isinstance(answer := backend().call(["true"], timeout_s=10), Ended):
        assert time.monotonic() < deadline, answer


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [("cut", "timeout"), ("blackhole", "timeout"), ("refuse", "refused"), ("power-off", "refused")],
)
def test_a_call_to_a_box_with_this_fault_says_so_in_time(box: Box, brief: None, fault: str, kind: str) -> None:
    box.fault(fault)
    answer, seconds = timed(lambda: backend().call(["true"], timeout_s=PATIENCE_S))
    refused_answer(answer, kind, sent=False)
    assert seconds < SOON_S
    answers_again(box)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (["cut"], {"timeout"}),
        (["blackhole"], {"timeout"}),
        (["refuse"], {"reset"}),
        (["drop-conns"], {"reset"}),
        (["power-off"], {"reset"}),
    ],
)
@pytest.mark.parametrize("sharing", ["own", "off"])
def test_a_fault_in_the_middle_of_a_command_leaves_it_open_whether_it_ran(
    box: Box, fault: list[str], kinds: set[str], sharing: str
) -> None:
    assert isinstance(backend(sharing=sharing).call(["true"]), Ended)
    is_over, has_begun = threading.Event(), threading.Event()
    sleep = f"sleep 60.{time.monotonic_ns()}"  # of this test alone: others may have left theirs there

    def strike() -> None:
        while not is_over.wait(0.1):
            if box.processes(sleep):
                has_begun.set()
                box.fault(*fault)
                return

    thread = threading.Thread(target=strike)
    thread.start()
    answer, seconds = timed(lambda: backend(sharing=sharing).call(["sh", "-c", sleep], timeout_s=5))
    is_over.set()
    thread.join()
    assert isinstance(answer, NoAnswer), answer
    if has_begun.is_set():  # else the machine was too slow for it to begin in time
        assert answer.kind in kinds | {"timeout"} and answer.sent, answer
    assert seconds < PATIENCE_S
    answers_again(box)


@pytest.mark.campaign
def test_a_link_that_is_mended_in_time_is_no_fault(box: Box) -> None:
    def cut_and_mend() -> None:
        time.sleep(1.0)
        box.fault("cut")
        time.sleep(3.0)
        box.heal()

    thread = threading.Thread(target=cut_and_mend)
    thread.start()
    answer = backend().call(["sh", "-c", "sleep 6; echo done"], timeout_s=PATIENCE_S)
    thread.join()
    assert isinstance(answer, Ended) and answer.stdout == b"done\n"


def test_a_lossy_link_is_slow_and_whole(box: Box) -> None:
    box.fault("loss", "10")
    answer = backend().call(["cat"], stdin=bytes(range(256)) * 400, timeout_s=60)
    assert isinstance(answer, Ended) and answer.stdout == bytes(range(256)) * 400


def test_an_address_that_nobody_has_is_a_timeout_or_no_route(box: Box, brief: None) -> None:
    answer, seconds = timed(lambda: backend("root@10.213.0.77").call(["true"], timeout_s=PATIENCE_S))
    # After 3 s without an answer to "who has it?" the kernel says "no route": to an ssh that is late, before the 2 s.
    kind = "no-route" if isinstance(answer, NoAnswer) and answer.kind == "no-route" else "timeout"
    refused_answer(answer, kind, sent=False)
    assert seconds < SOON_S


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("192.0.2.1", "no-route"),
        ("no-such-alias", "name"),
        ("box1:2299", "refused"),
        ("nobody-there@box1", "auth"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_by_its_kind_at_once(box: Box, address: str, kind: str) -> None:
    answer, seconds = timed(lambda: backend(address).call(["true"], timeout_s=PATIENCE_S))
    refused_answer(answer, kind, sent=False)
    assert seconds < SOON_S


def test_a_box_made_anew_has_another_host_key_and_nothing_is_sent(box: Box) -> None:
    assert isinstance(backend(sharing="off").call(["true"]), Ended)
    box.fault("power-off")
    box.fault("new-hostkey")
    box.fault("power-on")
    answer = refused_answer(backend(sharing="off").call(["true"]), "host-key", sent=False)
    assert "has changed" in answer.detail and "ssh-keygen" in answer.next_step


def test_a_box_never_seen_before_is_not_trusted_by_itself(box: Box, ssh_config: Path) -> None:
    ssh_config.write_text(ssh_config.read_text().replace("accept-new", "ask"))
    answer = refused_answer(backend().call(["true"]), "host-key", sent=False)
    assert "fingerprint" in answer.next_step


def test_a_key_that_the_box_does_not_know_is_tried_once(box: Box) -> None:
    box.sh("mv /root/.ssh/authorized_keys /root/.ssh/kept")
    tries = "grep -c 'Connection from' /var/log/sshd.log"
    before = int(box.sh(tries))
    refused_answer(backend().call(["true"]), "auth", sent=False)
    assert int(box.sh(tries)) == before + 1
    box.sh("mv /root/.ssh/kept /root/.ssh/authorized_keys")


@pytest.mark.campaign
def test_a_server_that_never_speaks_is_a_banner_fault(box: Box, brief: None) -> None:
    with faults.server(faults.silent) as port:
        answer, seconds = timed(lambda: backend(f"root@127.0.0.1:{port}").call(["true"], timeout_s=PATIENCE_S))
    refused_answer(answer, "banner", sent=False)
    assert seconds < SOON_S


def test_a_server_that_is_no_ssh_server_is_a_banner_fault(box: Box) -> None:
    with faults.server(faults.garbage) as port:
        refused_answer(backend(f"root@127.0.0.1:{port}").call(["true"]), "banner", sent=False)


@pytest.mark.campaign
def test_a_box_that_turns_logins_away_is_asked_again_ever_more_slowly(box: Box) -> None:
    box.sshd(2220, "MaxStartups 2:100:2")
    with faults.held_logins(box.address, 2220, 2):
        answer, seconds = timed(lambda: backend("box1:2220").call(["true"], timeout_s=PATIENCE_S))
    refused_answer(answer, "busy", sent=False)
    assert seconds >= 6  # at 0, 2 and 6 seconds, and no more
    assert box.sh("grep -c 'past MaxStartups' /var/log/sshd-2220.log") == "3\n"


@pytest.mark.campaign
def test_a_box_that_turns_logins_away_for_a_moment_is_reached(box: Box) -> None:
    box.sshd(2221, "MaxStartups 2:100:2")
    with faults.held_logins(box.address, 2221, 2):
        answers: list[Ended | NoAnswer] = []
        call = lambda: answers.append(backend("box1:2221").call(["true"], timeout_s=PATIENCE_S))  # noqa: E731
        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(1)
    thread.join()
    assert isinstance(answers[0], Ended)


def test_a_box_without_memory_for_one_more_login_is_busy(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_session, "BUSY_TRIES", 0)  # how often it is tried again is told above
    with faults.server(faults.slam) as port:
        refused_answer(backend(f"root@127.0.0.1:{port}").call(["true"], timeout_s=PATIENCE_S), "busy", sent=False)


@pytest.mark.campaign
@pytest.mark.parametrize("spare_bytes", [300_000, 600_000, 1_000_000])
def test_a_box_that_is_out_of_memory_is_no_answer(box: Box, spare_bytes: int) -> None:
    assert isinstance(backend(sharing="off").call(["true"]), Ended)
    box.memory(spare_bytes)
    answer, seconds = timed(lambda: backend(sharing="off").call(["sh", "-c", "exec cat /etc/passwd"], timeout_s=4))
    box.memory(0)
    # Which process the kernel ends is its own choice: that of the login, our shell, or pid 1 and with it the box.
    if not isinstance(answer, Ended):
        assert answer.kind in ("busy", "reset", "refused", "no-exec", "timeout", "banner"), answer
    assert seconds < PATIENCE_S
    box.fault("power-off")  # its sshd may be among what was ended
    answers_again(box)


@pytest.mark.campaign
def test_a_slow_and_jittery_line_needs_patience_and_nothing_else(box: Box) -> None:
    box.wire(delay=100, jitter=20, loss=0.5, rate=20)
    assert isinstance(backend().call(["true"]), Ended)
    assert isinstance(answer := backend().call(["cat"], stdin=bytes(range(256)) * 400), Ended)
    assert answer.stdout == bytes(range(256)) * 400


@pytest.mark.campaign
def test_a_line_that_comes_and_goes_is_told_as_no_answer_or_the_whole_answer(box: Box) -> None:
    box.wire(flap="1.5,1.5")
    answers = [backend(sharing="off").call(["echo", "whole"], timeout_s=15) for _ in range(6)]
    for answer in answers:
        assert (
            (answer.stdout == b"whole\n")
            if isinstance(answer, Ended)
            else answer.kind in ("timeout", "banner", "login")
        )
    assert any(isinstance(answer, Ended) for answer in answers)


def test_a_relay_that_runs_no_commands_is_told(box: Box) -> None:
    box.sshd(
        2222, 'ForceCommand echo "Error: Your SSH client does not support PTY, client doesn\'t support PTY"; exit 1'
    )
    answer = refused_answer(backend("box1:2222").call(["true"]), "relay", sent=False)
    assert "direct address" in answer.next_step


def test_a_relay_that_serves_files_alone_is_told(box: Box) -> None:
    box.sshd(2223, "ForceCommand internal-sftp")
    refused_answer(backend("box1:2223").call(["true"]), "relay", sent=False)


def test_a_jump_host_that_fails_is_told_from_the_box(box: Box, ssh_config: Path) -> None:
    key = ssh_config.read_text().split("IdentityFile")[1].splitlines()[0]
    more = f"  User root\n  IdentityFile {key}\n  UserKnownHostsFile {ssh_config.parent}/hosts\n"
    with ssh_config.open("a") as f:
        f.write(f"\nHost far\n  HostName 10.213.0.12\n  ProxyJump box1:2299\n{more}")
        f.write(f"Host deep\n  HostName 10.213.0.12\n  Port 2299\n  ProxyJump box1\n{more}")
    assert "port 2299: Connection refused" in refused_answer(backend("far").call(["true"]), "proxy", sent=False).detail
    refused_answer(backend("deep").call(["true"]), "proxy", sent=False)


def test_a_settings_file_that_ssh_cannot_read_is_named_with_its_line(box: Box, ssh_config: Path) -> None:
    ssh_config.write_text("NoSuchOption yes\n" + ssh_config.read_text())
    answer = refused_answer(backend().call(["true"]), "config", sent=False)
    assert f"{ssh_config}: line 1" in answer.detail


def test_a_box_that_can_start_no_process_is_told(box: Box) -> None:
    box.sh("chmod -x /bin/dash /usr/bin/dash")
    try:
        refused_answer(backend().call(["true"]), "no-exec", sent=False)
    finally:
        box.fault("power-off")
        box.fault("power-on")


def test_a_machine_without_ssh_is_told(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        answer = refused_answer(backend().call(["true"]), "no-ssh", sent=False)
    assert "install" in answer.next_step


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("up", [True, False], ids=["to the box", "from the box"])
@pytest.mark.parametrize("after_bytes", [1, 30, 1200, 2500, 3300, 3700, 4200, 60_000, 10_000_000])
def test_a_link_that_breaks_at_this_byte_never_yields_a_wrong_answer(box: Box, after_bytes: int, up: bool) -> None:
    data = bytes(range(256)) * 2000
    timeout_s = PATIENCE_S if after_bytes >= 60_000 else 4.0  # a login that breaks is tried again while there is time
    with faults.server(faults.relay(box.address, 22, after_bytes, up)) as port:
        answer = backend(f"127.0.0.1:{port}", sharing="off").call(["tee", "/tmp/got"], stdin=data, timeout_s=timeout_s)
    assert isinstance(answer, Ended) == (after_bytes > len(data))
    if isinstance(answer, Ended):
        assert answer.stdout == data and answer.rc == 0
    elif not answer.sent:
        assert box.sh("ls /tmp/got 2>&1 || true").startswith("ls: cannot") and after_bytes < 60_000
    box.sh("rm -f /tmp/got")
