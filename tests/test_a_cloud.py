"""A provider that rents, from a package of its own: digits through run, kill, resume, pull and down."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.need import Need
from sojourn.core.values import Site
from sojourn.testing.contracts.provider import ProviderContract
from tests.box.rig import until
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

    rents_a_stub = True

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Any:
        return sojourn_nimbus.Backend(Site("cloud", options={"nimbus": {"account": str(tmp_path / "account")}}))

    @pytest.fixture
    def need(self) -> Need:
        return Need()

    @pytest.fixture
    def price(self) -> tuple[int, str]:
        return 500_000, "USD"

    @pytest.fixture
    def mute(self) -> None:
        """Its account is a folder, which always answers."""

    bad_key = lost_answer = lagging = stopped = moved = paged = mute


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


def killed(account: Path, word: str) -> None:
    """SIGKILL to the processes on the account's machines that have this word in their argv."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in Path("/proc", pid, "cmdline").read_bytes().split(b"\0"):
                if str(account).encode() in Path("/proc", pid, "environ").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue


@pytest.mark.campaign
def test_digits_on_a_machine_that_does_not_exist_yet(people: tuple[Tenant, Tenant]) -> None:
    ann, _ = people
    planned = ann("plan", "--json")
    assert planned["rents"]["offer"] == "small" and planned["rents"]["rate"]["amount"] == 0.5
    assert not ann.account.exists()
    ann("run", "--confirm", "cloud")
    assert [one["on"] for one in ann.machines().values()] == [True]
    assert ann("leases", "--json")["leases"][0]["meter"] == "running"
    ann.until("running")
    ann.until_saved(ann.account / "m-0")
    killed(ann.account, "train.py")
    ann.until("killed")
    ann("resume", "digits")
    ann.until("succeeded")
    ann("down", "cloud", "--confirm", "cloud", rc=4)
    ann.fetched()
    ann("down", "cloud", "--confirm", "cloud")
    assert [one["on"] for one in ann.machines().values()] == [False]
    assert ann("leases", "--json")["leases"] == []


@pytest.mark.campaign
def test_two_clients_of_one_account_have_machines_of_their_own(people: tuple[Tenant, Tenant]) -> None:
    ann, ben = people
    ann.job(epochs=600)
    ben.job(epochs=600)
    ann("run", "--confirm", "cloud")
    ben("run", "--confirm", "cloud")
    machines = ann.machines()
    assert len(machines) == 2 and len({one["name"] for one in machines.values()}) == 2
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud", "--abandon", "digits")
    assert sorted(one["on"] for one in ben.machines().values()) == [False, True]
    assert ben.until("running")


@pytest.mark.campaign
def test_two_machines_of_one_site_are_told_apart(people: tuple[Tenant, Tenant]) -> None:
    ann, _ = people
    ann.job(epochs=600)
    ann("run", "--confirm", "cloud")
    second = ("run", "--name", "second", "--new-machine")
    ann(*second, rc=4)
    assert len(ann.machines()) == 1
    ann(*second, "--confirm", "cloud+2")
    ann(*second)  # it runs: no third one
    assert [one["on"] for one in ann.machines().values()] == [True, True]
    assert [len(list((ann.account / "m-0").rglob(f"runs/{run}"))) for run in ("digits", "second")] == [1, 0]
    assert [len(list((ann.account / "m-1").rglob(f"runs/{run}"))) for run in ("digits", "second")] == [0, 1]
    rows = {row["id"]: row for row in ann("status", "--json")["runs"]}
    assert {run: (row["state"], row["lease"]) for run, row in rows.items()} == {
        "digits": ("running", "cloud"),
        "second": ("running", "cloud+2"),
    }
    assert [row["id"] for row in ann("leases", "--json")["leases"]] == ["cloud", "cloud+2"]
    ann("watch", "--timeout", "3", rc=None)
    ann("logs", "digits")
    ann("logs", "second")
    for machine, run in (("cloud", "digits"), ("cloud+2", "second")):
        left = ann("clean", machine, "--json")["left"]
        assert [one["name"] for one in left if one["kind"] == "runs"] == [run]
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud", "--abandon", "digits")
    assert [one["on"] for one in ann.machines().values()] == [False, True]
    (row,) = [row for row in ann("status", "--json")["runs"] if row["id"] == "second"]
    assert row["state"] == "running" and row["reach"]["ok"]
    ann("resume", "digits", rc=5)  # its machine is gone, and the other one is not taken for it
    ann("stop", "second", "--confirm", "second")
    ann("down", "cloud", "--confirm", "cloud+2", "--abandon", "second")  # the only one that the site has left
    assert not any(one["on"] for one in ann.machines().values())


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "max_price, budget, words, rc, rented",
    [
        ("", "", (), 4, False),
        ("", "", ("--confirm", "other"), 4, False),
        ("", "", ("-y",), 4, False),
        ("0.6 USD/h", "", ("-y",), 4, False),
        ("", "5 USD", ("-y",), 4, False),
        ("0.6 USD/h", "5 USD", ("-y",), 0, True),
        ("0.4 USD/h", "5 USD", ("-y",), 5, False),
        ("0.4 USD/h", "5 USD", ("--confirm", "cloud"), 5, False),
        ("0.6 EUR/h", "5 USD", ("--confirm", "cloud"), 2, False),
        ("0.6 USD/h", "5 EUR", ("-y",), 4, False),
    ],
)
def test_nobody_pays_what_nobody_agreed_to(
    people: tuple[Tenant, Tenant], max_price: str, budget: str, words: tuple[str, ...], rc: int, rented: bool
) -> None:
    ann, _ = people
    ann.job(more=f"\nbudget: {budget}\n" if budget else "")
    ann.settings(SETTINGS.format(account=ann.account) + (f'max_price = "{max_price}"\n' if max_price else ""))
    planned = ann("plan", "--json", rc={5: 11, 2: 2}.get(rc, 0))
    said = ann("run", *words, rc=rc)
    assert bool(ann.machines()) == rented
    if rc == 4:
        assert planned["rents"]["rate"]["amount"] == 0.5 and "at 0.50 USD an hour" in said.stderr
    elif not rented:
        assert "max_price" in said.stderr
    if rented:
        (spec,) = (ann.account / "m-0").rglob("runs/digits/run.json")
        assert json.loads(spec.read_text())["budget_s"] == 5 / 0.5 * 3600  # by the provider's price


@pytest.mark.campaign
def test_a_machine_that_never_boots_can_be_released(people: tuple[Tenant, Tenant]) -> None:
    ann, _ = people
    ann.account.mkdir()
    (ann.account / "fault").write_text("stuck")
    words = [sys.executable, "-m", "sojourn", "run", "--confirm", "cloud"]
    with subprocess.Popen(words, cwd=ann.project, env=ann.env, stderr=subprocess.PIPE, text=True) as client:
        assert client.stderr is not None
        assert any("waiting for its machine" in line for line in client.stderr)
        client.kill()
    assert ann("leases", "--json")["leases"][0]["meter"] == "running"
    ann("down", "cloud", "--confirm", "cloud")
    assert [one["on"] for one in ann.machines().values()] == [False]


@pytest.mark.campaign
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


SHARE = {(2, "before"), (3, "within")}  # of the trials that `make test` plays


@pytest.mark.parametrize(
    "record, when",
    [
        pytest.param(record, when, marks=() if (record, when) in SHARE else pytest.mark.campaign)
        for record in range(1, 6)
        for when in ("before", "within", "after")
    ],
)
def test_a_client_killed_at_any_record_finds_its_machine_again(
    people: tuple[Tenant, Tenant], record: int, when: str
) -> None:
    ann, _ = people
    ann.job(epochs=600)
    rent = ("run", "--confirm", "cloud")
    first = ann(*rent, rc=None, program=CRASHING, CRASH_AT=str(record), CRASH_WHEN=when)
    assert first.returncode == -9, first.stdout + first.stderr
    assert len(ann.machines()) <= len(ann("leases", "--json")["leases"]) <= 1  # what may bill is listed
    ann(*rent)
    assert [one["on"] for one in ann.machines().values()] == [True] and ann.until("running")
    ann("stop", "digits", "--confirm", "digits")
    ann("down", "cloud", "--confirm", "cloud", "--abandon", "digits")
    assert [one["on"] for one in ann.machines().values()] == [False]


@pytest.mark.campaign
@pytest.mark.parametrize("is_home", [True, False])
def test_a_machine_that_vanished_settles_its_run_which_goes_on_elsewhere_from_what_is_home(
    people: tuple[Tenant, Tenant], is_home: bool
) -> None:
    ann, _ = people
    ann.job(epochs=40)
    ann("run", "--confirm", "cloud")
    ann.until_saved(ann.account / "m-0")
    if is_home:
        words = [sys.executable, "-m", "sojourn", "pull", "digits", "--follow", "--to", str(ann.home / "results")]
        with subprocess.Popen(words, cwd=ann.project, env=ann.env, stdout=subprocess.PIPE) as following:
            until(lambda: list(ann.home.rglob("followed/digits.json")))
            following.kill()
    sojourn_nimbus.Account(ann.account).delete("m-0")
    (row,) = ann("status", "--json", rc=None)["runs"]
    assert (row["state"], row["reason"]) == ("lost", "its machine is gone, by its provider's word")
    assert ann("leases", "--json")["leases"] == []
    assert "nothing to stop" in ann("stop", "digits", "--confirm", "digits").stdout
    assert "sojourn run" in ann("resume", "digits", rc=2).stderr
    assert ann("plan", "--json", rc=None)["decision"]["do"] == "again"
    said = ann("run", "--confirm", "cloud")
    assert ("goes on from the checkpoint that is home" if is_home else "no checkpoint of it is home") in said.stderr
    assert [one["on"] for one in ann.machines().values()] == [False, True]
    row = ann.until("running", "succeeded")
    assert row["attempt"] == 2 and row["lease"] == "cloud"
    (events,) = (ann.account / "m-1").rglob("events.jsonl")
    told = [json.loads(line) for line in events.read_text().splitlines()]
    (prepared,) = [one for one in told if one["kind"] == "prepared"]
    assert bool(prepared.get("resumes")) == is_home
    ann("stop", "digits", "--confirm", "digits", rc=None)
