"""Lost records, a bare shell, a port, a secret: on a box that only has a shell and an sshd."""

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.wire.quote import join
from tests.lab.lab import Box
from tests.spine.conftest import Desk
from tests.spine.test_chain import result
from tests.spine.test_handbook import bare, book, commands
from tests.spine.test_secrets import CANARY, LINES, PAYLOAD, holding

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
SITE = ("--site", "ssh:box1")
LOG = "/root/.local/share/sojourn/runs/digits/logs/1.log"
SAMPLER = "for i in $(seq 200); do cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; sleep 0.05; done > /srv/argv"


@pytest.fixture
def away(ssh_config: Path, box: Box, desk: Desk) -> Iterator[Desk]:
    """A user whose box is `box1`; nothing of ours is on it."""
    box.clear()
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    desk.job("python3 train.py 600 0.1")
    yield desk
    box.heal()
    box.clear()


@pytest.mark.campaign
def test_the_state_is_deleted_in_the_middle_and_another_client_brings_it_home(away: Desk) -> None:
    away.job("python3 train.py 40 0.1")
    away("run", *SITE)
    shutil.rmtree(away.state)
    found = away("recover", "ssh:box1", "--json").json
    assert [(r["id"], r["did"], r["attempt"]) for r in found["runs"]] == [("digits", "recovered", 1)]
    away.final()
    assert away("pull", "digits", "--to", "home", "--json").json["receipts"] == 2
    assert json.loads((away.project / "home/result.json").read_text())["value"] == result(40)
    away("down", "digits", "--confirm", "ssh:box1")


@pytest.mark.campaign
def test_stop_and_resume_work_on_what_was_recovered(away: Desk) -> None:
    away("run", *SITE)
    shutil.rmtree(away.state)
    away("recover", "ssh:box1")
    assert away("stop", "digits", "--confirm", "digits", "--json").json["state"] == "cancelled"
    assert away("resume", "digits", "--json").json["attempt"] == 2
    assert away.row()["state"] == "running"


@pytest.mark.campaign
def test_the_handbook_is_typed_into_shells_here_and_there(box: Box, away: Desk) -> None:
    away("run", *SITE)
    steps = {step["title"]: step for step in book(away)["steps"]}
    box.sh(f"until grep -q 'begins at epoch' {LOG}; do sleep 0.1; done")
    assert re.fullmatch(r"ssh -F \S+ box1", steps["reach the box"]["commands"][0])
    there = commands(away, "where everything is", "see its log", "check whether it is alive")
    said = box.sh("\n".join(there))
    assert "attempt 1 is alive" in said and "its keeper is alive" in said and "begins at epoch 0" in said
    box.sh("\n".join(commands(away, "stop it, with time to save")))
    assert away.final()["state"] == "cancelled"
    said = bare(away, steps["copy its outputs and logs, and check them"]["commands"])
    assert "logs/1.log: OK" in said and "checkpoints/best.pt: OK" in said and "FAILED" not in said
    box.sh("\n".join(commands(away, "start the next attempt")))
    deadline_s = time.monotonic() + 240
    while "attempt 2 is alive" not in box.sh("\n".join(commands(away, "check whether it is alive"))):
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
    away("recover", "ssh:box1")
    assert (away.row()["state"], away.row()["attempt"]) == ("running", 2)


@pytest.fixture
def serving(box: Box, away: Desk) -> Iterator[Desk]:
    """A run on the box, and something that listens at port 6006 of its loopback."""
    away("run", *SITE)
    box.sh("mkdir -p /srv/web; echo from the box > /srv/web/x")
    box.sh("cd /srv/web; setsid python3 -m http.server 6006 --bind 127.0.0.1 </dev/null >/dev/null 2>&1 &")
    yield away
    box.heal()
    box.sh("pkill -f 'http.serve[r] 6006' || true")


def opened(desk: Desk, *words: str) -> "tuple[subprocess.Popen[str], dict[str, object]]":
    child = desk.start("tunnel", "digits", "6006", *words, "--json")
    assert child.stdout
    return child, json.loads(child.stdout.readline())


def closed(child: "subprocess.Popen[str]") -> tuple[int, str]:
    """Ctrl-C."""
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    return child.returncode, err


def fetched(address: object) -> bytes:
    deadline_s = time.monotonic() + 240
    while True:
        try:
            data: bytes = urllib.request.urlopen(f"http://{address}/x", timeout=5).read()
            return data
        except OSError:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)


@pytest.mark.campaign
def test_a_port_of_the_box_is_here_until_ctrl_c(serving: Desk) -> None:
    child, up = opened(serving)
    assert (up["address"], up["is_forwarded"]) == ("127.0.0.1:6006", True)
    assert fetched(up["address"]) == b"from the box\n"
    rc, err = closed(child)
    assert rc == 0 and "closed" in err and "Traceback" not in err
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", 6006), timeout=2)


@pytest.mark.campaign
def test_a_port_that_is_taken_here_is_exchanged_for_a_free_one(serving: Desk) -> None:
    with socket.create_server(("127.0.0.1", 6006)):
        child, up = opened(serving)
        assert up["local_port"] != 6006 and up["port"] == 6006
        assert fetched(up["address"]) == b"from the box\n"
        assert closed(child)[0] == 0


@pytest.mark.campaign
def test_its_time_is_bounded_and_a_broken_link_is_said(box: Box, serving: Desk) -> None:
    child, up = opened(serving, "--for", "2s")
    assert up["limit_s"] == 2.0
    assert child.wait(120) == 0
    child, _ = opened(serving)
    box.fault("drop-conns")
    assert child.wait(120) == 3
    child.communicate()


@pytest.mark.campaign
def test_where_nothing_listens_there_it_is_said(box: Box, away: Desk) -> None:
    away("run", *SITE)
    child = away.start("tunnel", "digits", "7007", "--for", "6s")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0 and "127.0.0.1:7007" in out
    assert "nothing" in out + err


@pytest.mark.campaign
def test_a_box_that_cannot_be_reached_has_no_tunnel(box: Box, serving: Desk) -> None:
    box.fault("refuse")
    assert serving("tunnel", "digits", "6006", "--json", rc=3).error["code"] == "unreachable"


@pytest.mark.campaign
def test_a_canary_is_in_no_argv_here_or_there_and_on_no_disk_at_the_end(box: Box, away: Desk) -> None:
    box.sh("rm -rf /srv/gate")
    wait = "until [ -e /srv/gate ]; do sleep 0.1; done; "
    away.job(PAYLOAD + wait + "echo '{}' > result.json", outputs=["result.json"], secrets=["CANARY"])
    box.sh(f"mkdir -p /srv; echo {join([SAMPLER])} > /srv/sampler; setsid sh /srv/sampler </dev/null >/dev/null 2>&1 &")
    started = away("run", *SITE, "--json", CANARY=CANARY)
    box.sh(f"until grep -q 'now canary-' {LOG}; do sleep 0.1; done")
    assert "***CANARY***" in away("logs", "digits").out
    box.sh("touch /srv/gate")
    away.final()
    pulled = away("pull", "digits", "--to", "home", "--json")
    assert "***CANARY***" in (away.project / "home/logs/1.log").read_text()
    said = [started.out, started.err, pulled.out, pulled.err, away("logs", "digits").out]
    assert not any(line.decode() in text for text in said for line in LINES)
    assert holding(away.home, away.project) == []
    box.sh("pkill -f 'sample[r]' || true")  # it would see our own search
    for line in LINES:
        hits = box.sh(f"grep -rlF -e '{line.decode()}' /root/.local /srv /var/log /tmp 2>/dev/null || true")
        assert hits == "", hits
    assert int(box.sh("wc -c < /srv/argv")) > 10_000
