"""`stop`, `resume` and `logs` through the real command line."""

import subprocess
import sys

import pytest

from tests.spine.conftest import Desk, alive, wait_for


def test_stop_asks_for_the_name_and_only_resume_continues(slow: Desk) -> None:
    slow("run")
    said = slow("stop", "digits", "--json", rc=4).error
    assert said["next"] == "sojourn stop digits --confirm digits"
    slow("stop", "digits", "--confirm", "digit", rc=4)
    assert slow.row()["state"] == "running"
    wait_for(lambda: (slow.root() / "checkpoints/best.pt").exists())
    stopped = slow("stop", "digits", "--confirm", "digits", "--json").json
    assert stopped["ended"] and stopped["state"] == "cancelled"
    assert not alive(slow.payload())
    slow("status", "digits", "--exit-status", rc=103)
    refused = slow("run", "--json", rc=2).error
    assert refused["code"] == "stopped" and refused["next"] == "sojourn resume digits"
    resumed = slow("resume", "digits", "--json").json
    assert resumed["attempt"] == 2 and resumed["state"] == "running"
    wait_for(lambda: "begins at epoch" in slow.log(attempt=2))
    assert "begins at epoch 0\n" not in slow("logs", "digits").out
    again = slow("resume", "digits", "--json").json
    assert again["did"] == "nothing" and slow.attempts() == [1, 2]


def test_stop_ends_a_process_whose_keeper_is_gone(slow: Desk) -> None:
    slow("run")
    slow.kill(slow.keeper())
    payload = slow.payload()
    assert slow("stop", "digits", "--confirm", "digits", "--json").json["state"] == "cancelled"
    assert not alive(payload)


@pytest.mark.campaign
def test_stopping_what_is_not_alive_changes_nothing(desk: Desk) -> None:
    desk("run")
    desk.final()
    said = desk("stop", "digits", "--json").json
    assert said["ended"] and said["state"] == "succeeded"
    assert not desk.journal("stopping")


@pytest.mark.campaign
def test_resume_of_a_success_or_of_nothing_is_refused(desk: Desk) -> None:
    assert desk("resume", "digits", "--json", rc=2).error["code"] == "not-found"
    desk("run")
    desk.final()
    refused = desk("resume", "digits", "--json", rc=2).error
    assert refused["code"] == "not-resumable" and refused["next"] == "sojourn pull digits"


@pytest.mark.campaign
def test_a_stop_request_outlives_the_client_that_made_it(slow: Desk) -> None:
    slow("run")
    child = slow.start("stop", "digits", "--confirm", "digits")
    slow.until(lambda row: (slow.root() / "stop.json").exists())
    child.kill()
    slow.finish(child)
    assert slow.final()["state"] == "cancelled"


@pytest.mark.campaign
def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(desk: Desk) -> None:
    desk.job("trap '' TERM; while :; do sleep 0.2; done", outputs=[])
    desk("run")
    desk("stop", "digits", "--grace", "1s", "--confirm", "digits")
    assert desk.row()["state"] == "cancelled"
    assert [event["signal"] for event in desk.events() if event["kind"] == "signal"] == ["TERM", "KILL"]


@pytest.mark.campaign
def test_following_a_log_shows_what_comes_and_ends_with_the_attempt(desk: Desk) -> None:
    desk.job("for i in 1 2 3 4; do echo line $i; sleep 0.6; done", outputs=[])
    desk("run")
    assert desk("logs", "digits", "-f").out.splitlines() == [f"line {i}" for i in (1, 2, 3, 4)]
    assert desk("logs", "digits", "--tail", "2").out.splitlines() == ["line 3", "line 4"]
    desk("logs", "digits", "--attempt", "2", rc=2)


@pytest.mark.campaign
def test_a_log_may_be_bytes_of_any_kind(desk: Desk) -> None:
    desk.job("printf '\\377\\000\\n'; head -c 3000000 /dev/zero; printf 'end'", outputs=[])
    desk("run")
    desk.final()
    argv = [sys.executable, "-m", "sojourn", "logs", "digits"]
    raw = subprocess.run(argv, cwd=desk.project, env=desk.env, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    assert raw == b"\xff\x00\n" + bytes(3_000_000) + b"end"


@pytest.mark.campaign
def test_a_watch_with_a_limit_ends_by_itself(slow: Desk) -> None:
    slow("run")
    slow("watch", "digits", "--limit", "2s", rc=101)
