"""The handbook's commands, typed into a bare shell as they stand: each does what it says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spine.conftest import Desk, alive, wait_for

SHELLS = ["bash", "dash"]


def book(desk: Desk) -> dict[str, Any]:
    return desk("handbook", "digits", "--json").json


def commands(desk: Desk, *titles: str) -> list[str]:
    """The commands of the steps of these titles, in order."""
    steps = {step["title"]: step["commands"] for step in book(desk)["steps"]}
    return [command for title in ("set the variables used below", *titles) for command in steps[title]]


def bare(desk: Desk, lines: list[str], shell: str = "dash", timeout_s: float = 200) -> str:
    """Type lines into a shell that knows nothing of sojourn; what it said."""
    env = {"HOME": str(desk.home), "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"}
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        [shutil.which(shell) or shell],
        input=text,
        env=env,
        cwd=desk.project,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return done.stdout + done.stderr


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_living_run_is_looked_at(slow: Desk, shell: str) -> None:
    slow("run")
    wait_for(lambda: "begins at epoch" in slow.log())
    said = bare(slow, commands(slow, "where everything is", "see its log", "check whether it is alive"), shell)
    assert f"attempt 1 is alive, pid {slow.payload()}" in said and f"its keeper is alive, pid {slow.keeper()}" in said
    assert "attempt 1 begins at epoch 0" in said and '"kind":"started"' in said
    assert "no such" not in said.lower() and "not found" not in said


@pytest.mark.campaign
@pytest.mark.parametrize("shell", SHELLS)
def test_a_run_is_stopped_with_time_to_save_and_goes_on(slow: Desk, shell: str) -> None:
    slow("run")
    bare(slow, commands(slow, "stop it, with time to save"), shell)
    assert slow.final()["state"] == "cancelled"
    assert "attempt 1 is not alive" in bare(slow, commands(slow, "check whether it is alive"), shell)
    bare(slow, commands(slow, "start the next attempt"), shell)
    wait_for(lambda: slow.attempts() == [1, 2])
    assert "attempt 2 is alive" in bare(slow, commands(slow, "check whether it is alive"), shell)
    bare(slow, commands(slow, "stop it, with time to save"), shell)


@pytest.mark.campaign
def test_a_run_without_a_keeper_is_stopped_by_pid_and_its_end_written(slow: Desk) -> None:
    slow("run")
    pid = slow.payload()
    slow.kill(slow.keeper())
    assert "it has no keeper" in bare(slow, commands(slow, "check whether it is alive"))
    hurried = [line.replace("sleep 30", "sleep 2") for line in commands(slow, "stop it by pid")]
    bare(slow, hurried)
    assert not alive(pid)
    assert not [e for e in slow.events() if e["kind"] == "ended"]
    bare(slow, commands(slow, "put a keeper back"))
    wait_for(lambda: [e for e in slow.events() if e["kind"] == "ended"])
    ended = [e for e in slow.events() if e["kind"] == "ended"]
    assert ended[0]["state"] in ("killed", "preempted") and slow.attempts() == [1]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("shell", SHELLS)
def test_its_outputs_are_copied_and_checked_and_damage_is_seen(desk: Desk, shell: str) -> None:
    desk("run")
    desk.final()
    copy = commands(desk, "copy its outputs and logs, and check them")
    said = bare(desk, copy, shell)
    assert "attempts/1/result.json: OK" in said and "checkpoints/best.pt: OK" in said and "FAILED" not in said
    assert json.loads((desk.project / "digits-home/attempts/1/result.json").read_text())["epochs"] == 3
    (desk.project / "digits-home/attempts/1/result.json").write_text("{}")
    assert "result.json: FAILED" in bare(desk, [copy[0], copy[1], copy[2], copy[3], copy[-1]], shell)


@pytest.mark.campaign
def test_checkpoints_are_copied_while_it_runs(slow: Desk) -> None:
    slow("run")
    slow.until(lambda row: any((slow.root() / "checkpoints").iterdir()))
    said = bare(
        slow, ["kill -s STOP -- -%d" % slow.payload(), *commands(slow, "copy its checkpoints before it has ended")]
    )
    assert re.search(r"checkpoints/\S+: OK", said) and "FAILED" not in said


@pytest.mark.campaign
def test_secrets_are_asked_for_and_reach_the_next_attempt(desk: Desk) -> None:
    desk.job('test "$KEY" = hush-hush || exit 9; trap "exit 75" TERM; sleep 60 & wait', secrets=["KEY"], outputs=None)
    desk("run", KEY="hush-hush")
    desk("stop", "digits", "--confirm", "digits")
    lines = commands(desk, "start the next attempt")
    asking = next(line for line in lines if "getpass" in line)
    answered = asking.replace("getpass.getpass(", '(lambda asked: "hush-hush")(').replace("import getpass, ", "import ")
    assert answered != asking and shlex.split(asking)[-1] == "KEY"
    bare(desk, [answered if line == asking else line for line in lines])
    wait_for(lambda: desk.attempts() == [1, 2])
    assert "attempt 2 is alive" in bare(desk, commands(desk, "check whether it is alive"))
    desk("recover", "local")  # what was done by hand becomes known here
    assert desk.row()["state"] == "running"
    desk("stop", "digits", "--confirm", "digits")
    desk.is_left()
    assert not (desk.root() / "secrets.json").exists()


@pytest.mark.campaign
def test_it_is_text_that_stands_alone(slow: Desk, tmp_path: Path) -> None:
    slow("run")
    text = slow("handbook", "digits").out
    for needed in (str(slow.root()), "keeper-", "supervise", "sha256sum -c", "sojourn recover local", "running"):
        assert needed in text, needed
    steps = book(slow)["steps"]
    assert all(command in text for step in steps for command in step["commands"])
    assert {step["title"] for step in steps if step["changes"]} == {
        "stop it, with time to save", "stop it by pid", "start the next attempt", "put a keeper back"
    }  # fmt: skip


@pytest.mark.campaign
def test_of_a_site_that_does_not_answer_it_says_what_is_known(desk: Desk, tmp_path: Path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.gpu]\ntransport = "ssh"\naddress = "me@127.0.0.1:1"\n')
    desk("run")
    desk.final()
    journal = desk.state / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    planned = next(r for r in records if r["kind"] == "planned")
    planned["site"].update(name="gpu", transport="ssh", address="me@127.0.0.1:1")
    kept = [r for r in records if r["kind"] in ("leased", "planned", "launching", "launched")]
    chained = ("prev", "sum", "over")
    old = [{**{key: r[key] for key in r if key not in chained}, "v": 1} for r in kept]  # as an older version wrote it
    journal.write_text("".join(json.dumps(r) + "\n" for r in old))
    (desk.state / "journal.head").unlink()
    (desk.state / "index.sqlite").unlink()
    os.environ.pop("SSH_AUTH_SOCK", None)
    answer = book(desk)
    assert answer["reach"] and "did not answer" in answer["remarks"][0]
    assert answer["steps"][0]["commands"] == ["ssh -p 1 -l me 127.0.0.1"]
    assert any(c.startswith("ssh -p 1 -l me 127.0.0.1 'sh -c ") for s in answer["steps"] for c in s["commands"])


def test_a_run_that_was_never_launched_has_none(desk: Desk) -> None:
    assert desk("handbook", "digits", "--json", rc=2).error["code"] == "not-found"
