"""A place that only takes and gives files, from a package of its own: digits through run, kill, resume, pull, down."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.mirror import BadName, Mirror
from sojourn.core.ports import Item
from sojourn.core.values import NoAnswer, Place, Site
from sojourn.testing.contracts.mailbox import MailboxContract
from tests.box.rig import until
from tests.fakes import sojourn_jotter
from tests.person import ROOT, Person, installed

SETTINGS = """
[sites.book]
transport = "jotter"
launcher = "jotter"
[sites.book.jotter]
api = "{api}"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Place]:
    """A service of the test's own."""
    words = [sys.executable, "-m", "tests.fakes.sojourn_jotter", str(tmp_path / "service")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        place = Place(Site("book", options={"jotter": {"api": server.stdout.readline().strip()}}))
        yield place
        for one in json.loads(sojourn_jotter.ask(place, "GET", "/versions")):
            sojourn_jotter.ask(place, "DELETE", f"/versions/{one['id']}")
        server.kill()


class TestContract(MailboxContract):
    """What every mailbox promises."""

    @pytest.fixture
    def mailbox(self, service: Place) -> Any:
        return sojourn_jotter.Post(service)

    @pytest.fixture
    def mute(self) -> Any:
        return sojourn_jotter.Post(Place(Site("book", options={"jotter": {"api": "http://127.0.0.1:9"}})))

    @pytest.fixture
    def out(self, mailbox: Any, service: Place, tmp_path: Path) -> dict[str, bytes]:
        made = {"runs/a/data": bytes(range(256)), "runs/a/it's empty": b""}
        with tarfile.open(tmp_path / "parcel.tgz", "w:gz") as tar:
            for name, data in made.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        mailbox.put(str(tmp_path / "parcel.tgz"), "a.tgz")
        push = {"kernel": "a", "upload": "a.tgz", "input": "", "argv": ["true"]}
        sojourn_jotter.ask(service, "POST", "/versions", json.dumps(push).encode())
        until(lambda: mailbox.list())
        return made


class Canned:
    """A mailbox that offers what it was made with, and counts."""

    calls = False

    def __init__(self, *items: Item) -> None:
        self.items, self.gets = items, 0

    def put(self, local: str, name: str, **how: Any) -> None:
        return None

    def list(self, **how: Any) -> Sequence[Item]:
        return self.items

    def get(self, name: str, local: str, **how: Any) -> int:
        self.gets += 1
        return Path(local).write_bytes(b"abc")


@pytest.mark.parametrize("name", ["../x", "runs/../../x", "/etc/x", "keepers/x", "runs/a/./x"])
def test_a_name_that_leads_out_of_the_folder_is_refused(private_home: Path, name: str) -> None:
    with pytest.raises(BadName):
        Mirror("book", Canned(Item(name, 3, "1"))).refresh()


def test_what_came_is_not_fetched_again_and_what_came_in_part_is_no_answer(private_home: Path) -> None:
    post = Canned(Item("runs/a/x", 3, "1"))
    assert Mirror("book", post).refresh() is True and Mirror("book", post).refresh() is False
    assert post.gets == 1
    assert isinstance(Mirror("book", Canned(Item("runs/a/x", 4, "2"))).refresh(), NoAnswer)


@pytest.fixture
def ann(tmp_path: Path, service: Place) -> Person:
    package = installed(tmp_path, "jotter", launcher="Backend", transport="Post")
    return Person(tmp_path, "ann", package, "book", SETTINGS.format(api=service.site.options["jotter"]["api"]))


@pytest.mark.campaign
def test_digits_in_a_notebook(ann: Person, service: Place, tmp_path: Path) -> None:
    ann("run")
    row = ann.until("running")
    assert row["reason"].startswith("blind: ")
    ann.until_saved(tmp_path / "service")
    sojourn_jotter.ask(service, "DELETE", "/versions/digits-v1")
    assert "digits-v1 is cancelled" in ann.until("killed", "lost")["reason"]
    ann("resume", "digits")
    with tarfile.open(tmp_path / "service/uploads/digits.tgz") as sent:
        names = sent.getnames()
        assert not any(".pt" in name for name in names) and "runs/digits/want.json" in names
    assert ann.until("succeeded")["attempt"] == 2
    said = ann("logs", "digits").stdout  # it had the first one's checkpoints from its output: they were not sent again
    assert "epoch 12 " in said and "resumes from ckpt-" in said
    ann("down", "book", "--confirm", "book", rc=4)
    ann.fetched()
    ann("down", "book", "--confirm", "book")
    assert ann("status", "--json")["runs"][0]["home"]


def test_a_secret_never_goes_there(ann: Person, tmp_path: Path) -> None:
    ann.env["API_KEY"] = "canary-5f2c"
    (ann.project / "sojourn.yaml").write_text("name: s\nsite: book\nsecrets: [API_KEY]\nrun: 'true'\n")
    assert "takes files alone" in ann("run", rc=2).stderr
    for top in (tmp_path / "service", ann.home):
        assert not [path for path in top.rglob("*") if path.is_file() and b"canary-5f2c" in path.read_bytes()]


def test_what_is_packed_is_without_the_run_s_secrets(private_home: Path) -> None:
    mirror = Mirror("book", Canned())
    root = Path(mirror.base) / "runs/a"
    root.mkdir(parents=True)
    for name in ("secrets.json", "secrets.json.new", "run.json"):
        (root / name).write_text("canary")
    with tarfile.open(mirror.pack(str(root))) as sent:
        assert sorted(sent.getnames()) == ["runs/a", "runs/a/run.json"]


@pytest.mark.campaign
def test_what_ended_badly_there_is_explained_by_what_its_keeper_saw(ann: Person, tmp_path: Path) -> None:
    (ann.project / "sojourn.yaml").write_text(
        "name: bad\nsite: book\nrun: |\n"
        f"  until test -e {tmp_path}/gate; do sleep 0.1; done; python3 -c 'import nothing_such'\n"
    )
    ann("run")
    assert "runs no commands" in ann("logs", "bad", rc=3).stderr
    (tmp_path / "gate").touch()
    ann.until("failed")
    assert "No module named" in ann("logs", "bad").stdout
    assert "nothing_such" in ann("why", "bad", rc=1).stdout


@pytest.mark.campaign
def test_a_stop_ends_what_cannot_read_the_request(ann: Person) -> None:
    ann.job(epochs=600)
    ann("run")
    ann("stop", "digits", "--confirm", "digits")
    assert ann.until("cancelled", "killed", "lost")["state"] == "cancelled"
    ann("run", rc=2)  # only `resume` continues it


@pytest.mark.campaign
def test_nothing_is_said_of_this_machine_as_if_it_were_that_one(ann: Person) -> None:
    ann.job(epochs=600)  # it must not end before it is stopped
    plan = ann("plan", "--json")
    assert plan["disk"] == {} and plan["survival"]["path"] == "runs/digits/checkpoints"
    assert any("cannot be checked before" in remark for remark in plan["remarks"])
    ann("run")
    told = ann("handbook", "digits", "--json")
    assert {step["where"] for step in told["steps"]} == {"here"} and "nobody can log in" in told["remarks"][0]
    assert "$root" not in str(told["steps"]) and "kill" not in str(told["steps"])
    ann("stop", "digits", "--confirm", "digits")
    ann.until("cancelled")
    said = ann("why", "digits", rc=10).stdout
    assert "returned no evidence" in said and "state is unknown" not in said


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("words", [("doctor", "book"), ("gpu", "book"), ("reap", "book")])
def test_what_cannot_look_there_says_so(ann: Person, words: tuple[str, ...]) -> None:
    said = ann(*words, rc=3)
    assert "runs no commands" in said.stderr
