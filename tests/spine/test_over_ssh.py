"""The whole chain through the real command line, on a box that only has a shell and an sshd."""

import json
from pathlib import Path

import pytest

from tests.lab.lab import Box
from tests.spine.conftest import Desk
from tests.spine.test_chain import result

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
SITE = ("--site", "ssh:box1")


@pytest.fixture
def away(ssh_config: Path, box: Box, desk: Desk) -> Desk:
    """A user whose job takes about a minute, and whose box is `box1`."""
    box.sh("rm -rf /root/.local")
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    desk.job("python3 train.py 150 0.3")
    return desk


def kill(box: Box, pattern: str) -> None:
    """SIGKILL to what runs in the box with this in its command line."""
    box.sh(f"pkill -9 -f '[{pattern[0]}]{pattern[1:]}'")


def test_a_run_goes_to_a_box_loses_everything_and_comes_home_proven(box: Box, away: Desk) -> None:
    started = away("run", *SITE, "--json").json
    assert (started["attempt"], started["did"]) == (1, "launched")
    away.until(lambda row: row["progress"]["percentage"] and row["progress"]["percentage"] > 5)
    assert away("run", *SITE, "--json").json["did"] == "nothing"

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
    away.until(lambda row: row["state"] == "succeeded", within_s=90)

    pulled = away("pull", "digits", "--to", "results", "--json").json
    assert pulled["ok"] and pulled["receipts"] == 2
    assert json.loads((away.project / "results/result.json").read_text())["value"] == result(150)
    away("down", "digits", rc=4)
    away("down", "digits", "--confirm", "ssh:box1")


def test_one_look_at_many_runs_of_a_box_is_one_connection_and_one_question(box: Box, away: Desk) -> None:
    away.job("sleep 60")
    for n in range(3):
        away("run", *SITE, "--name", f"r{n}")
    away.env["SOJOURN_SSH_SHARING"] = "off"
    count = "grep -c 'Accepted publickey' /var/log/sshd.log"
    before = int(box.sh(count))
    rows = away("status", "--json").json["runs"]
    assert len(rows) == 3 and int(box.sh(count)) == before + 1


@pytest.mark.parametrize(
    ("site", "rc", "says"),
    [
        ("ssh:no-such-alias", 3, "Could not resolve hostname"),
        ("ssh:box1:2299", 3, "Connection refused"),
        ("ssh:nobody@box1", 3, "Permission denied"),
        ("ssh:-oProxyCommand=x", 2, "no ssh address"),
    ],
)
def test_a_site_that_cannot_be_reached_is_one_clear_line_and_nothing_is_begun(
    away: Desk, site: str, rc: int, says: str
) -> None:
    error = away("run", "--site", site, "--json", rc=rc).error
    assert says in error["message"] and "\n" not in error["message"]
    assert error["next"] or rc == 2
