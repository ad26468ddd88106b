"""SIGKILL to keeper, training, both, and to the client at every record it writes: the same commands end the same."""

import json
import random
import time
from pathlib import Path

import pytest

from tests.spine.conftest import Desk, alive
from tests.spine.test_chain import result

CRASHING = str(Path(__file__).parent / "crashing.py")


def has_checkpoint(desk: Desk) -> bool:
    return (desk.root() / "checkpoints/best.pt").exists()


def value(desk: Desk) -> str:
    desk("pull", "digits", "--to", "home")
    return str(json.loads((desk.project / "home/result.json").read_text())["value"])


def test_killing_the_keeper_alone_never_starts_a_second_training(desk: Desk) -> None:
    desk.gated()
    desk("run")
    payload = desk.payload()
    desk.kill(desk.keeper())
    row = desk.row()
    assert row["state"] == "running" and "keeper is gone" in row["reason"]
    again = desk("run", "--json").json
    assert (again["did"], again["attempt"]) == ("adopted", 1)
    assert desk.payload() == payload and alive(desk.keeper())
    desk.gate.touch()
    assert desk.final()["state"] == "succeeded"
    assert desk.attempts() == [1] and value(desk) == result(8)


@pytest.mark.campaign
def test_an_adopted_run_ends_with_its_true_exit_code(desk: Desk) -> None:
    desk.job(f"while [ ! -e '{desk.gate}' ]; do sleep 0.05; done; exit 7")
    desk("run")
    desk.kill(desk.keeper())
    desk("run")
    desk.gate.touch()
    assert desk.final()["state"] == "failed"
    desk.until(lambda row: desk.events()[-1]["kind"] == "sealed")  # the end is told before the outputs are hashed
    assert [event["rc"] for event in desk.events() if event["kind"] == "ended"] == [7]


@pytest.mark.campaign
def test_an_end_that_no_keeper_saw_is_recorded_by_whoever_looks(desk: Desk) -> None:
    desk.gated()
    desk("run")
    desk.kill(desk.keeper())
    payload = desk.payload()
    desk.gate.touch()
    while alive(payload):
        time.sleep(0.05)
    assert desk.final()["state"] == "succeeded"
    assert desk.attempts() == [1] and value(desk) == result(8)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("whom", ["training", "both"])
def test_the_identical_run_goes_on_from_the_checkpoint(desk: Desk, whom: str) -> None:
    desk.gated()
    desk("run")
    desk.until(lambda row: has_checkpoint(desk))
    if whom == "both":
        desk.kill(desk.keeper())
    desk.kill_training()
    row = desk.final()
    assert row["state"] == "killed" and row["next"]
    desk("status", "digits", "--exit-status", rc=100)
    assert any("checkpoint (step" in remark for remark in desk("plan", "--json").json["remarks"])
    again = desk("run", "--json").json
    assert (again["did"], again["attempt"]) == ("launched", 2)
    desk.gate.touch()
    assert desk.final()["state"] == "succeeded"
    assert desk.attempts() == [1, 2] and value(desk) == result(8)
    second = desk("logs", "digits", "--attempt", "2").out
    assert "attempt 2 begins at epoch " in second and "begins at epoch 0\n" not in second


@pytest.mark.campaign
def test_two_clients_at_once_start_one_attempt(slow: Desk) -> None:
    said = [slow.finish(child) for child in [slow.start("run", "--json") for _ in range(3)]]
    assert [one.rc for one in said] == [0, 0, 0], said
    assert {one.json["attempt"] for one in said} == {1} and slow.attempts() == [1]
    slow.kill(slow.keeper())
    slow.kill_training()
    said = [slow.finish(child) for child in [slow.start("run", "--json") for _ in range(3)]]
    assert [one.rc for one in said] == [0, 0, 0], said
    assert slow.attempts() == [1, 2]


def crashed(desk: Desk, at: int, when: str, *words: str) -> bool:
    """Run a command that kills itself at its `at`-th record, before or after writing it; False where it got through."""
    child = desk.start(*words, program=(CRASHING,), CRASH_AT=str(at), CRASH_WHEN=when)
    return desk.finish(child).rc == -9


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_whose_client_dies_at_any_record_ends_the_same(desk: Desk, at: int, when: str) -> None:
    desk.job("python train.py 3 0.2")
    assert crashed(desk, at, when, "run")
    assert desk("run", "--json").json["attempt"] == 1
    assert desk.final()["state"] == "succeeded"
    assert desk.attempts() == [1]
    assert len({record["token"] for record in desk.journal("launching")}) == 1
    assert value(desk) == result(3)


@pytest.mark.campaign
def test_a_run_whose_client_dies_at_any_moment_ends_the_same(desk: Desk) -> None:
    desk.job("python train.py 3 0.2")
    for after_s in (random.uniform(0.1, 1.2) for _ in range(5)):
        child = desk.start("run")
        time.sleep(after_s)
        child.kill()
        desk.finish(child)
    assert desk("run", "--json").json["attempt"] == 1
    assert desk.final()["state"] == "succeeded"
    assert desk.attempts() == [1] and value(desk) == result(3)


@pytest.mark.campaign
def test_a_client_that_dies_at_any_record_of_any_later_command_leaves_it_repeatable(desk: Desk) -> None:
    desk("run")
    desk.final()
    for words in (("pull", "digits"), ("down", "local", "--confirm", "local")):
        at = 1
        while crashed(desk, at, random.choice(("before", "after")), *words):
            at += 1
            assert at < 12
        desk(*words)
    assert desk.row()["is_home"]
    assert not desk("leases", "--json").json["leases"]


@pytest.mark.campaign
def test_a_next_attempt_whose_client_dies_at_any_record_is_one_attempt(slow: Desk) -> None:
    slow("run")
    for at in (1, 2, 3):
        slow.kill(slow.keeper())
        slow.kill_training()
        assert slow.final()["state"] in ("killed", "lost")
        assert crashed(slow, at, "before" if at % 2 else "after", "resume", "digits")
        slow("resume", "digits")
        assert slow.attempts() == list(range(1, at + 2))
