"""A canary secret through the whole chain: it reaches `setup` and payload, and is found nowhere else, ever."""

import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ending import processes
from tests.spine.conftest import PATIENT, Desk, wait_for

# Of this session alone: the watcher sees every process of the machine.
CANARY = f"canary-Zażółć-数字-{uuid.uuid4().hex}\nits second line, {uuid.uuid4().hex}"
LINES = [line.encode() for line in CANARY.splitlines()]
SHOWN = "python3 -c 'import os; print(repr(os.environ[\"CANARY\"]))'; "
PAYLOAD = 'printf %s "$CANARY" | sha256sum; echo "now $CANARY now"; ' + SHOWN


class Watcher(threading.Thread):
    """Reads every process's command line as fast as it can, for as long as the test runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: set[bytes] = set()
        self.samples = 0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            for pid in processes():
                try:
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                self.samples += 1
                if any(line in words for line in LINES):
                    self.found.add(words)


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    watcher = Watcher()
    watcher.start()
    yield watcher
    watcher.is_over.set()
    watcher.join(10)
    assert watcher.found == set() and watcher.samples > 1000


def holding(*folders: Path) -> list[Path]:
    """Every file below that holds a line of the canary, in its own bytes or as JSON escapes it."""
    needles = [*LINES, *(json.dumps(line.decode()).strip('"').encode() for line in LINES)]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if any(needle in content(path) for needle in needles)]


def content(path: Path) -> bytes:
    """What is in it; nothing where it has gone meanwhile, as what a living keeper renames."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_a_canary_is_seen_by_the_payload_and_by_nobody_else(desk: Desk, watcher: Watcher) -> None:
    wait = f"until [ -e '{desk.gate}' ]; do sleep 0.05; done; "
    desk.job(PAYLOAD + wait + "echo '{}' > result.json", outputs=["result.json"], secrets=["CANARY"], setup="true")
    started = desk("run", "--json", CANARY=CANARY)
    wait_for(lambda: desk.log().count("canary-") == 2)  # by the shell and by Python
    live = desk("logs", "digits")
    assert "now ***CANARY***" in live.out and "second line" not in live.out
    assert desk.row()["state"] == "running"
    assert sorted(p.name for p in holding(desk.home, desk.project)) == ["1.log", "secrets.json"]
    desk.gate.touch()
    desk.final()
    pulled = desk("pull", "digits", "--to", "home", "--json")
    shown = [started.out, started.err, live.out, live.err, pulled.out, pulled.err]
    shown += [said for words in (("logs", "digits"), ("status", "--json")) for said in vars(desk(*words)).values()]
    assert not any(line.decode() in str(text) for text in shown for line in LINES)
    log = (desk.project / "home/logs/1.log").read_bytes()
    assert hashlib.sha256(CANARY.encode()).hexdigest().encode() in log and log.count(b"***CANARY***") == 2
    assert holding(desk.home, desk.project) == []
    assert not (desk.root() / "secrets.json").exists()
    assert desk("verify", "home", "--json").json["ok"]
    desk("down", "local", "--confirm", "local")


@pytest.mark.campaign
def test_the_pulled_log_is_that_of_the_sealed_manifest(desk: Desk) -> None:
    desk.job(PAYLOAD + "echo '{}' > result.json", outputs=["result.json"], secrets=["CANARY"])
    desk("run", CANARY=CANARY)
    desk.final()
    desk("pull", "digits", "--to", "home")
    sealed = json.loads((desk.root() / "manifest.json").read_text())
    row = next(row for row in sealed["files"] if row["path"] == "logs/1.log")
    assert hashlib.sha256((desk.project / "home/logs/1.log").read_bytes()).hexdigest() == row["sha256"]
    assert desk.row()["is_home"]


@pytest.mark.campaign
def test_a_look_at_a_living_run_brings_no_log_home(desk: Desk) -> None:
    desk.job("echo \"$CANARY\"; echo '{}' > result.json; sleep 60", outputs=["result.json"], secrets=["CANARY"])
    desk("run", CANARY=CANARY)
    wait_for(lambda: (desk.root() / "attempts/1/result.json").exists())
    looked = desk("pull", "digits", "--to", "home", "--json").json
    assert [a["path"] for a in looked["artifacts"]] == ["result.json"]
    assert holding(desk.project) == []


@pytest.mark.campaign
def test_the_end_of_a_log_in_an_error_is_masked(desk: Desk) -> None:
    desk.job('echo "cannot log in with $CANARY" >&2; exit 3', secrets=["CANARY"])
    said = desk("run", "--json", rc=1, program=PATIENT, CANARY=CANARY)
    assert "cannot log in with ***CANARY***" in said.json["log_tail"] and "second line" not in said.out + said.err


@pytest.mark.campaign
def test_stop_removes_it_and_resume_asks_for_it_again(desk: Desk) -> None:
    desk.job('test -n "$CANARY"; echo "$CANARY"; trap "exit 75" TERM; sleep 60 & wait', secrets=["CANARY"])
    desk("run", CANARY=CANARY)
    assert json.loads((desk.root() / "secrets.json").read_text()) == {"CANARY": CANARY}
    desk("stop", "digits", "--confirm", "digits", "--grace", "1s")
    desk.is_left()
    assert holding(desk.home, desk.project) == []
    said = desk("resume", "digits", "--json", rc=2).error
    assert said["code"] == "secret-missing" and "CANARY" in said["next"]
    assert desk.attempts() == [1]
    desk("resume", "digits", CANARY=CANARY)
    assert desk.attempts() == [1, 2]
    desk("stop", "digits", "--confirm", "digits", "--grace", "1s")
    desk.is_left()
    assert holding(desk.home, desk.project) == []


@pytest.mark.campaign
def test_a_value_too_short_to_be_masked_is_said(desk: Desk) -> None:
    desk.job('echo "pin $PIN"', secrets=["PIN"], outputs=None)
    said = desk("run", "--json", rc=None, PIN="123")
    assert any("PIN has fewer than 4 characters" in remark for remark in said.json["remarks"])
    desk.final()
    assert "pin 123" in desk("logs", "digits").out


def test_a_secret_that_is_not_set_is_named_before_anything_is_done(desk: Desk) -> None:
    desk.job(secrets=["CANARY"])
    said = desk("run", "--json", rc=2).error
    assert said["code"] == "secret-missing" and not desk.root().exists()
    assert not (desk.state / "journal.jsonl").exists() or not desk.journal("planned")


@pytest.mark.campaign
def test_a_living_run_is_adopted_without_its_secrets(desk: Desk) -> None:
    desk.job('echo "$CANARY"; sleep 60', secrets=["CANARY"], outputs=None)
    desk("run", CANARY=CANARY)
    desk.kill(desk.keeper())
    assert desk("run", "--json").json["did"] in ("adopted", "nothing")
    assert desk.row()["state"] == "running" and desk.attempts() == [1]
