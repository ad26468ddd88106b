"""A provider that rents, from a package of its own: digits through run, kill, resume, pull and down."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.need import Need
from sojourn.core.values import Site
from sojourn.testing.contracts.provider import ProviderContract
from tests.fakes import sojourn_nimbus

ROOT = Path(__file__).resolve().parent.parent
FAKE = ROOT / "tests/fakes/sojourn_nimbus.py"
JOB = """
name: digits
site: cloud
outputs: [result.json]
run: |
  test -e "$SOJOURN_CHECKPOINT_DIR/half" && { echo '{"loss": 0.5}' > result.json; exit 0; }
  touch "$SOJOURN_CHECKPOINT_DIR/half"; exec sleep 600
"""
SETTINGS = """
[sites.cloud]
transport = "nimbus"
provider = "nimbus"
launcher = "setsid"
[sites.cloud.nimbus]
account = "{account}"
"""


class Person:
    """Somebody with a machine of their own and a key of the account."""

    def __init__(self, top: Path, name: str, package: Path) -> None:
        self.home, self.account = top / name, top / "account"
        settings = self.home / ".config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS.format(account=self.account))
        self.project = self.home / "project"
        self.project.mkdir()
        (self.project / "sojourn.yaml").write_text(JOB)
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "src")]),
            **{name: value for name, value in os.environ.items() if name.startswith("SOJOURN_TEST")},
        }

    def __call__(self, *words: str, rc: int | None = 0) -> Any:
        ran = subprocess.run(
            [sys.executable, "-m", "sojourn", *words],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert rc is None or ran.returncode == rc, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return json.loads(ran.stdout) if "--json" in words and ran.stdout else ran

    def row(self) -> dict[str, Any]:
        (row,) = self("status", "--json", rc=None)["runs"]
        found: dict[str, Any] = row
        return found

    def until(self, *states: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while (row := self.row())["state"] not in states:
            assert time.monotonic() < deadline, row
            time.sleep(0.1)
        return row

    def machines(self) -> dict[str, Any]:
        path = self.account / "books.json"
        books: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return books


class TestContract(ProviderContract):
    """What every provider promises."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Any:
        return sojourn_nimbus.Backend(Site("cloud", options={"nimbus": {"account": str(tmp_path / "account")}}))

    @pytest.fixture
    def need(self) -> Need:
        return Need()


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Person, Person]]:
    package = tmp_path / "site"
    info = package / "sojourn_nimbus-1.dist-info"
    info.mkdir(parents=True)
    (package / "sojourn_nimbus.py").write_text(FAKE.read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sojourn-nimbus\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[sojourn.provider]\nnimbus = sojourn_nimbus:Backend\n[sojourn.transport]\nnimbus = sojourn_nimbus:Line\n"
    )
    yield Person(tmp_path, "ann", package), Person(tmp_path, "ben", package)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if str(tmp_path / "account").encode() in Path("/proc", pid, "environ").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue


def test_digits_on_a_machine_that_does_not_exist_yet(people: tuple[Person, Person]) -> None:
    ann, _ = people
    planned = ann("plan", "--json")
    assert any("rents small" in remark for remark in planned["remarks"]) and not ann.account.exists()
    ann("run")
    assert [one["on"] for one in ann.machines().values()] == [True]
    assert ann("leases", "--json")["leases"][0]["meter"] == "running"
    ann.until("running")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", pid, "cmdline").read_bytes().startswith(b"sleep\x00600"):
                environ = Path("/proc", pid, "environ").read_bytes()
                if str(ann.account).encode() in environ:
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue
    ann.until("killed")
    ann("resume", "digits")
    ann.until("succeeded")
    ann("down", "cloud", "--confirm", "cloud", rc=4)
    ann("pull", "digits")
    ann("down", "cloud", "--confirm", "cloud")
    assert [one["on"] for one in ann.machines().values()] == [False]
    assert ann("leases", "--json")["leases"] == []


def test_two_clients_of_one_account_have_machines_of_their_own(people: tuple[Person, Person]) -> None:
    ann, ben = people
    ann("run")
    ben("run")
    machines = ann.machines()
    assert len(machines) == 2 and len({one["name"] for one in machines.values()}) == 2
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud")
    assert sorted(one["on"] for one in ben.machines().values()) == [False, True]
    assert ben.until("running")


@pytest.mark.parametrize("fault, machines", [("lost", 1), ("killed", 1), ("full", 0)])
def test_whatever_becomes_of_the_answer_nothing_is_rented_twice_or_forgotten(
    people: tuple[Person, Person], fault: str, machines: int
) -> None:
    ann, _ = people
    ann.account.mkdir()
    (ann.account / "fault").write_text(fault)
    first = ann("run", rc=None)
    assert first.returncode == {"lost": 0, "killed": -9, "full": 5}[fault], first.stderr
    assert len(ann.machines()) == machines
    if fault == "killed":
        (row,) = ann("leases", "--json")["leases"]
        assert row["meter"] == "unknown"
        ann("down", "cloud", "--confirm", "cloud")
        assert [one["on"] for one in ann.machines().values()] == [False] and not ann("leases", "--json")["leases"]
        return
    if fault == "full":
        assert "no capacity" in first.stderr and ann("leases", "--json")["leases"] == []
        return
    ann("run")
    assert len(ann.machines()) == 1 and ann.until("running")
