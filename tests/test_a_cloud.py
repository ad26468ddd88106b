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
RENT = ("run", "--confirm", "cloud")
CRASHING = (str(Path(__file__).parent / "spine/crashing.py"),)


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
    ann(*RENT)
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
    ann(*RENT)
    ben(*RENT)
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
    first = ann(*RENT, rc=None)
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


def test_nothing_is_rented_before_somebody_agreed_to_its_price(people: tuple[Tenant, Tenant]) -> None:
    ann, _ = people
    said = ann("run", rc=4).stderr
    assert "would rent small at 0.50 USD an hour" in said and "no `budget`" in said and "--confirm cloud" in said
    assert "has no `max_price`" in ann("run", "-y", rc=4).stderr
    ann.settings(SETTINGS.format(account=ann.account) + 'max_price = "0.40 USD/h"\n')
    assert "small is 0.50 USD an hour" in ann(*RENT, rc=5).stderr
    assert any("within 0.40 USD an hour" in remark for remark in ann("plan", "--json", rc=None)["remarks"])
    ann.settings(SETTINGS.format(account=ann.account) + 'max_price = "0.60 USD/h"\n')
    assert "the job has no `budget`" in ann("run", "-y", rc=4).stderr
    assert ann.machines() == {} and ann("leases", "--json")["leases"] == []
    job = ann.project / "sojourn.yaml"
    job.write_text(job.read_text() + "budget: 2 USD\n")
    assert "pays for 4 h" in ann("run", rc=4).stderr
    ann("run", "-y")
    (home,) = (ann.account / id for id in ann.machines())
    (spec,) = home.rglob("runs/digits/run.json")
    assert json.loads(spec.read_text())["budget_s"] == 4 * 3600  # at the machine's price, not at the settings'


SHARE = {(1, "after"), (2, "before"), (3, "within"), (4, "before")}  # of the trials that `make test` plays


@pytest.mark.parametrize(
    "record, when",
    [
        pytest.param(record, when, marks=() if (record, when) in SHARE else pytest.mark.soak)
        for record in range(1, 6)
        for when in ("before", "within", "after")
    ],
)
def test_a_client_killed_at_any_record_finds_its_machine_again(
    people: tuple[Tenant, Tenant], record: int, when: str
) -> None:
    ann, _ = people
    first = ann(*RENT, rc=None, program=CRASHING, CRASH_AT=str(record), CRASH_WHEN=when)
    assert first.returncode == -9, first.stdout + first.stderr
    assert len(ann.machines()) <= len(ann("leases", "--json")["leases"]) <= 1  # what may bill is listed
    ann(*RENT)
    assert [one["on"] for one in ann.machines().values()] == [True] and ann.until("running")
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud")
    assert [one["on"] for one in ann.machines().values()] == [False]
