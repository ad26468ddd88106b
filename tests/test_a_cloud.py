"""A provider that rents, from a package of its own: digits through run, kill, resume, pull and down."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.need import Need
from sojourn.core.values import Site
from sojourn.testing.contracts.provider import ProviderContract
from tests.fakes import sojourn_nimbus
from tests.person import Person, installed

SETTINGS = """
[sites.cloud]
transport = "nimbus"
provider = "nimbus"
launcher = "setsid"
[sites.cloud.nimbus]
account = "{account}"
"""


class Tenant(Person):
    """Somebody with a key of the account."""

    def __init__(self, top: Path, name: str, package: Path) -> None:
        self.account = top / "account"
        super().__init__(top, name, package, "cloud", SETTINGS.format(account=self.account))

    def machines(self) -> dict[str, Any]:
        path = self.account / "books.json"
        books: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return books


class TestContract(ProviderContract):
    """What every provider promises."""

    rents_a_stub = True

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Any:
        return sojourn_nimbus.Backend(Site("cloud", options={"nimbus": {"account": str(tmp_path / "account")}}))

    @pytest.fixture
    def need(self) -> Need:
        return Need()


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Tenant, Tenant]]:
    package = installed(tmp_path, "nimbus", provider="Backend", transport="Line")
    yield Tenant(tmp_path, "ann", package), Tenant(tmp_path, "ben", package)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if str(tmp_path / "account").encode() in Path("/proc", pid, "environ").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue


def test_digits_on_a_machine_that_does_not_exist_yet(people: tuple[Tenant, Tenant]) -> None:
    ann, _ = people
    planned = ann("plan", "--json")
    assert any("rents small" in remark for remark in planned["remarks"]) and not ann.account.exists()
    ann("run", "--confirm", "cloud")
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


def test_two_clients_of_one_account_have_machines_of_their_own(people: tuple[Tenant, Tenant]) -> None:
    ann, ben = people
    ann("run", "--confirm", "cloud")
    ben("run", "--confirm", "cloud")
    machines = ann.machines()
    assert len(machines) == 2 and len({one["name"] for one in machines.values()}) == 2
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud")
    assert sorted(one["on"] for one in ben.machines().values()) == [False, True]
    assert ben.until("running")


@pytest.mark.parametrize("fault, machines", [("lost", 1), ("killed", 1), ("full", 0)])
def test_whatever_becomes_of_the_answer_nothing_is_rented_twice_or_forgotten(
    people: tuple[Tenant, Tenant], fault: str, machines: int
) -> None:
    ann, _ = people
    ann.account.mkdir()
    (ann.account / "fault").write_text(fault)
    first = ann("run", "--confirm", "cloud", rc=None)
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
    ann("run", "--confirm", "cloud")
    assert len(ann.machines()) == 1 and ann.until("running")
