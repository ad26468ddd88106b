"""The whole chain through the real command line, on a box that only has a shell and an sshd."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.ssh import talk as ssh_talk
from sojourn.verbs.observe.status import status
from tests.lab.lab import Box
from tests.spine.conftest import Desk
from tests.spine.test_chain import result

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
SITE = ("--site", "ssh:box1")


@pytest.fixture
def away(ssh_config: Path, box: Box, desk: Desk) -> Iterator[Desk]:
    """A user whose job takes about a minute, and whose box is `box1`."""
    box.clear()
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    desk.job("python3 train.py 150 0.3")
    yield desk
    box.heal()
    box.clear()


def kill(box: Box, pattern: str) -> None:
    """SIGKILL to what runs in the box with this in its command line."""
    box.sh(f"pkill -9 -f '[{pattern[0]}]{pattern[1:]}'")


def test_a_run_goes_to_a_box_loses_everything_and_comes_home_proven(box: Box, away: Desk) -> None:
    started = away("run", *SITE, "--json").json
    assert (started["attempt"], started["did"]) == (1, "launched")
    away.until(lambda row: row["progress"]["percentage"] and row["progress"]["percentage"] > 5)
    assert away("run", *SITE, "--json").json["did"] == "nothing"

    seen = away("exec", "digits", "--", "sh", "-c", 'echo "it\'s $SOJOURN_ATTEMPT"; basename $PWD; exit 5', rc=5)
    assert seen.out == "it's 1\n1\n"

    box.fault("cut")
    said = away("status", "digits", "--json", rc=3).json["runs"][0]
    assert said["state"] == "running" and not said["reach"]["ok"]  # not knowing never becomes "dead"
    box.heal()

    before = away.row()["progress"]["percentage"]
    kill(box, "supervise --root")
    kill(box, "train.py 150")
    away.until(lambda row: row["state"] in ("killed", "lost", "failed"))
    again = away("run", *SITE, "--json").json
    assert (again["attempt"], again["did"]) == (2, "launched")
    assert before > 5 and "begins at epoch 0" not in away("logs", "digits", "--attempt", "2").out
    away.until(lambda row: row["state"] == "succeeded")

    pulled = away("pull", "digits", "--to", "results", "--json").json
    assert pulled["ok"] and pulled["receipts"] == 2
    assert json.loads((away.project / "results/result.json").read_text())["value"] == result(150)
    away("down", "digits", rc=4)
    away("down", "digits", "--confirm", "ssh:box1")


def logins(box: Box) -> int:
    """How often its sshd has let somebody in."""
    return int(box.sh("grep -c 'Accepted publickey' /var/log/sshd.log || true"))


@pytest.mark.campaign
def test_one_look_at_many_runs_of_a_box_is_one_connection_and_one_question(box: Box, away: Desk) -> None:
    away.job("sleep 60")
    for n in range(3):
        away("run", *SITE, "--name", f"r{n}")
    away.env["SOJOURN_SSH_SHARING"] = "off"
    before = logins(box)
    rows = away("status", "--json").json["runs"]
    assert len(rows) == 3 and logins(box) == before + 1


@pytest.mark.campaign
def test_a_run_on_a_warm_box_is_two_connections_whatever_has_changed_in_the_code(box: Box, away: Desk) -> None:
    away.job("sleep 60")
    away("run", *SITE, "--name", "first")
    away.env["SOJOURN_SSH_SHARING"] = "off"
    for name in ("same", "changed"):
        before = logins(box)
        assert away("run", *SITE, "--name", name, "--json").json["state"] == "running"
        assert logins(box) - before in (2, 3)  # 3 only where the first beat takes longer than the second call stays
        (away.project / "more.py").write_text("more = 1\n")
    before = logins(box)
    assert away("run", *SITE, "--name", "changed", "--json").json["did"] == "nothing"
    assert logins(box) == before + 1
    kill(box, "supervise --root")
    assert away("run", *SITE, "--name", "changed", "--json").json["did"] == "adopted"
    kill(box, "supervise --root")
    kill(box, "sleep 60")
    away.until(lambda row: row["state"] in ("killed", "lost", "failed"), "changed")
    before = logins(box)
    assert away("run", *SITE, "--name", "changed", "--json").json["attempt"] == 2
    assert logins(box) <= before + 3


@pytest.mark.campaign
@pytest.mark.parametrize("fault", ["cut", "refuse"])
def test_a_box_that_is_cut_off_is_shown_as_that_with_what_to_do(box: Box, away: Desk, fault: str) -> None:
    away("run", *SITE)
    box.fault(fault)
    said = away("status", rc=None, timeout_s=600)  # its own bounds end it: see the next test
    assert "running" in said.out and "no answer" in said.out and "ssh:box1: " in said.out
    row = away("status", "--json", rc=3, timeout_s=600).json["runs"][0]
    assert row["state"] == "running" and row["reach"]["ok"] is False and row["reach"]["next"]


def test_a_look_is_bounded_to_less_than_a_minute() -> None:
    look_s = inspect.signature(status).parameters["timeout_s"].default
    after_it_s = ssh_talk.LEAVE_S + 2 * ssh_talk.TERM_S + 3.0  # the process is ended, its shared connection let go of
    assert look_s + after_it_s < 60


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("site", "rc", "says"),
    [
        ("ssh:no-such-alias", 3, "Could not resolve hostname"),
        ("ssh:box1:2299", 3, "Connection refused"),
        ("ssh:nobody@box1", 3, "Permission denied"),
        ("ssh:-oProxyCommand=x", 2, "not an SSH address"),
    ],
)
def test_a_site_that_cannot_be_reached_is_one_clear_line_and_nothing_is_begun(
    away: Desk, site: str, rc: int, says: str
) -> None:
    error = away("run", "--site", site, "--json", rc=rc).error
    assert says in error["message"] and "\n" not in error["message"]
    assert error["next"] or rc == 2


@pytest.mark.campaign
def test_how_a_box_is_set_up_is_remembered_by_name(away: Desk) -> None:
    learned = away("learn", *SITE, "--as", "lab")
    settings = Path(learned.err.split("append it to ")[1].split(",")[0])
    assert not settings.exists()  # it edits nothing
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(learned.out)
    assert away("doctor", "lab", "--json", rc=10).json["site"] == "lab"  # it warns of a small control group
    assert "doctor lab" in away("learn", *SITE, "--as", "lab", rc=4).err
    assert away("run", "--site", "lab", "--json").json["did"] == "launched"
    away("stop", "digits", "--confirm", "digits")


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "words, rc", [(["--site", "local", "--as", "x"], 2), ([*SITE, "--as", "No Name"], 2), ([*SITE, "bundle.json"], 2)]
)
def test_what_cannot_be_remembered_is_refused(away: Desk, words: list[str], rc: int) -> None:
    away("learn", *words, rc=rc)
