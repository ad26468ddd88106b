"""The transport `ssh` against real sshd boxes: calls, login shells, sharing of connections."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from sojourn.backends.ssh import share as ssh_share
from sojourn.backends.transport.ssh import Backend
from sojourn.core.values import Ended, NoAnswer, Place, Site
from tests.lab import lab
from tests.lab.lab import Box

T = TypeVar("T")
pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ssh_config")]


def site(address: str = "box1", **options: object) -> Site:
    return Site(address, transport="ssh", address=address, options=options)


def backend(address: str = "box1", **options: object) -> Backend:
    return Backend(Place(site(address, **options)))


def ended(answer: Ended | NoAnswer) -> Ended:
    assert isinstance(answer, Ended), answer
    return answer


def logins(box: Box, log: str = "/var/log/sshd.log") -> int:
    return int(box.sh(f"grep -c 'Accepted publickey' {log} || true"))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish", "dash"])
def test_a_call_passes_any_login_shell_of_a_box(box: Box, shell: str) -> None:
    box.user(shell, f"/usr/bin/{shell}")
    words = ["a b", "c\nd", "'\"$HOME`!\\", "", "*", "é"]
    script = 'cat; printf "%s|" "$@"; pwd; echo err >&2; exit 255'
    answer = ended(backend(f"{shell}@box1").call(["sh", "-c", script, "sojourn", *words], stdin=b"in\0\r\n"))
    assert answer.stdout == b"in\0\r\n" + "|".join([*words, ""]).encode() + f"/home/{shell}\n".encode()
    assert (answer.rc, answer.stderr, answer.truncated) == (255, b"err\n", False)


def test_login_files_that_chat_on_both_streams_change_nothing(box: Box) -> None:
    box.user("chatty", "/bin/bash")
    box.sh("printf 'echo hello; printf \"no newline\"; echo warn >&2; stty -a\\n' > /home/chatty/.bashrc")
    box.sh("printf 'echo %%bye; echo bye >&2\\n' > /home/chatty/.bash_logout")
    answer = ended(backend("chatty@box1").call(["sh", "-c", "echo out; echo err >&2"]))
    assert (answer.stdout, answer.stderr, answer.rc) == (b"out\n", b"err\n", 0)


@pytest.mark.campaign
@pytest.mark.parametrize(("line", "kind"), [("read x", "login"), ("exec fish", "login"), ("exit 3", "no-exec")])
def test_a_login_file_that_keeps_us_out_is_named_and_nothing_was_sent(box: Box, line: str, kind: str) -> None:
    box.user("odd", "/bin/bash")
    box.sh(f"echo '{line}' > /home/odd/.bashrc")
    answer = backend("odd@box1").call(["touch", "/tmp/made"], stdin=b"touch /tmp/made\n" * 10, timeout_s=12)
    assert isinstance(answer, NoAnswer) and (answer.kind, answer.sent) == (kind, False), answer
    assert box.sh("ls /tmp/made 2>&1 || true").startswith("ls: cannot")


def test_an_account_without_a_shell_is_named(box: Box) -> None:
    box.user("shut-out", "/usr/sbin/nologin")
    answer = backend("shut-out@box1").call(["true"])
    assert isinstance(answer, NoAnswer) and (answer.kind, answer.sent) == ("no-exec", False)
    assert answer.detail == "This account is currently not available."


def test_output_is_bounded_on_both_streams(box: Box) -> None:
    script = "head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; echo end"
    answer = ended(backend().call(["sh", "-c", script], limit_bytes=1000))
    assert (len(answer.stdout), len(answer.stderr), answer.truncated, answer.rc) == (1000, 1000, True, 0)


def test_input_that_nobody_reads_does_not_hold_the_call(box: Box) -> None:
    assert ended(backend().call(["true"], stdin=b"x" * 20_000_000, timeout_s=100)).rc == 0


def test_a_large_input_and_output_pass_whole(box: Box) -> None:
    data = os.urandom(8 << 20)
    assert ended(backend().call(["cat"], stdin=data)).stdout == data


def test_a_child_left_behind_with_our_pipes_open_does_not_hold_the_call(box: Box) -> None:
    answer = ended(backend().call(["sh", "-c", "sleep 300 & echo out"], timeout_s=100))
    assert answer.stdout == b"out\n"


def test_a_call_ends_at_its_deadline_and_may_have_been_received(box: Box) -> None:
    ended(backend().call(["true"]))  # the connection is there: what follows takes no login
    began = time.monotonic()
    answer = backend().call(["sleep", "300"], timeout_s=8)
    assert isinstance(answer, NoAnswer) and (answer.kind, answer.sent) == ("timeout", True)
    assert 8 <= time.monotonic() - began < 100


def test_one_connection_serves_many_calls(box: Box) -> None:
    before = logins(box)
    for _ in range(5):
        assert ended(backend().call(["true"])).rc == 0
    assert logins(box) == before + 1


def test_unshared_calls_log_in_each_time(box: Box) -> None:
    before = logins(box)
    for _ in range(3):
        assert ended(backend(sharing="off").call(["true"])).rc == 0
    assert logins(box) == before + 3


def test_calls_at_the_same_time_share_one_box(box: Box) -> None:
    answers: list[Ended | NoAnswer] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(backend().call(["echo", str(n)]))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended(answer).stdout for answer in answers) == [f"{n}\n".encode() for n in range(6)]


@pytest.mark.campaign
def test_a_box_that_allows_one_session_a_connection_still_answers_two_calls_at_once(box: Box) -> None:
    box.sshd(2210, "MaxSessions 1")
    slow: list[Ended | NoAnswer] = []
    thread = threading.Thread(target=lambda: slow.append(backend("box1:2210").call(["sleep", "2"])))
    thread.start()
    time.sleep(1)
    assert ended(backend("box1:2210").call(["echo", "now"])).stdout == b"now\n"
    thread.join()
    assert ended(slow[0]).rc == 0


def test_the_socket_of_a_killed_master_is_no_obstacle(box: Box, shared_connections: Path) -> None:
    ended(backend().call(["true"]))
    assert len(list(shared_connections.iterdir())) == 1
    for master in wait_for(masters):
        os.kill(master, signal.SIGKILL)
    assert ended(backend().call(["echo", "back"])).stdout == b"back\n"


@pytest.mark.campaign
def test_a_master_that_hangs_is_left_and_the_call_comes_through(box: Box) -> None:
    ended(backend().call(["true"]))
    hung = wait_for(masters)
    for master in hung:
        os.kill(master, signal.SIGSTOP)
    answer = ended(backend().call(["echo", "through"], timeout_s=100))
    assert answer.stdout == b"through\n"
    before = logins(box)
    assert ended(backend().call(["true"])).rc == 0
    assert logins(box) == before  # there is another shared connection, and the hung one is not asked again
    for master in hung:
        os.kill(master, signal.SIGKILL)


@pytest.mark.campaign
def test_a_shared_connection_that_lost_its_link_is_left_and_the_call_comes_through(box: Box) -> None:
    ended(backend().call(["true"]))
    # As after a change of network here: the old connection's packets go nowhere, new ones pass.
    port = box.sh("ss -Htn state established sport = :22 | awk '{print $4}' | sed 's/.*://'").split()[0]
    drop(box, int(port))
    answer = ended(backend().call(["echo", "through"], timeout_s=100))
    assert answer.stdout == b"through\n"


def test_a_folder_that_cannot_hold_sockets_means_unshared_calls(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    monkeypatch.setattr(ssh_share, "folder", lambda: None)
    before = logins(box)
    assert ended(backend().call(["true"])).rc == 0 and ended(backend().call(["true"])).rc == 0
    assert logins(box) == before + 2


def test_hanging_up_ends_the_masters(box: Box) -> None:
    ended(backend().call(["true"]))
    wait_for(masters)
    ssh_share.hang_up(site())
    wait_for(lambda: not masters())


@pytest.mark.campaign
def test_a_killed_client_leaves_nothing_running_on_the_box(box: Box, tmp_path: Path) -> None:
    code = (
        "from sojourn.core.values import Place, Site; from sojourn.backends.transport.ssh import Backend;"
        "Backend(Place(Site('b', transport='ssh', address='box1'))).call(['sh', '-c', 'cat; : victim'], "
        "stdin=b'x' * (1 << 26), timeout_s=300)"
    )
    box.fault("rate", "8")  # so that its output takes a minute
    client = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: box.processes(": victim"))
    client.kill()
    client.wait()
    wait_for(lambda: not box.processes(": victim"))


@pytest.mark.campaign
def test_a_box_behind_a_jump_host_is_reached_through_the_users_settings(box: Box, ssh_config: Path) -> None:
    with ssh_config.open("a") as f:
        f.write("\nHost far\n  ProxyJump box1\n  HostName 10.213.0.12\n")
        f.write(ssh_config.read_text().split("Host box2")[1].split("HostName 10.213.0.12")[1])
    assert ended(backend("far").call(["hostname"])).stdout == b"box2\n"
    before = logins(box)
    assert ended(backend("far").call(["hostname"])).rc == 0
    assert logins(box) == before
    assert isinstance(backend("far").call(["sleep", "60"], timeout_s=2), NoAnswer)
    assert ended(backend("far").call(["hostname"])).stdout == b"box2\n"


def masters() -> list[int]:
    """Shared connections of ours that live."""
    listing = subprocess.run(["ps", "-ww", "-eo", "pid,stat,args"], capture_output=True, text=True).stdout
    folder = os.environ["XDG_RUNTIME_DIR"]
    rows = [line.split(None, 2) for line in listing.splitlines()]
    return [int(pid) for pid, stat, args in rows[1:] if folder in args and "[mux]" in args and stat[0] not in "Z"]


def drop(box: Box, client_port: int) -> None:
    """Swallow the packets of one connection of this client, both ways."""
    rule = (
        "add table inet sj { chain i { type filter hook input priority 0; tcp sport %d drop; };"
        " chain o { type filter hook output priority 0; tcp dport %d drop; }; }" % (client_port, client_port)
    )
    subprocess.run(["ip", "netns", "exec", f"{lab.SJ}-b{box.number}", "nft", rule], check=True)


def wait_for(claim: Callable[[], T], seconds: float = 240.0) -> T:
    """What the claim says once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := claim()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
    return found
