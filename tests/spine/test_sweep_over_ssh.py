"""A sweep over three bare boxes: the client dies, one box is cut off, one goes for good."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Box, Lab
from tests.spine.conftest import Desk
from tests.spine.test_chain import result

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
SITES = ["ssh:box1", "ssh:box2", "ssh:box3"]


@pytest.fixture
def away(ssh_config: Path, inside: Lab, desk: Desk) -> Iterator[Desk]:
    """A user with nine cells of different length; each epoch of them takes a box 0.1 s."""
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    matrix = {"epochs": [6, 10, 14], "seed": [0, 1, 2]}
    desk.job("python3 train.py ${epochs} 0.1", name="ab", candidates=SITES, sweep={"matrix": matrix})
    for box in inside.boxes:
        box.sh("rm -rf /root/.local")
    yield desk
    for box in inside.boxes:
        box.heal()
        box.sh("pkill -9 -f 'supervis[e] --root' || true; pkill -9 -f 'train.p[y]' || true; rm -rf /root/.local")


def cells(desk: Desk, rc: int | None = 0) -> dict[str, dict[str, str]]:
    """The cells by name, as `status` has them."""
    said = desk("status", "ab", "--json", rc=rc).json
    return {row["id"]: {"state": row["state"], "site": row["site"]} for row in said["runs"]}


def until_over(desk: Desk, names: list[str], within_s: float = 120) -> None:
    deadline_s = time.monotonic() + within_s
    while not all(cells(desk, None)[name]["state"] == "succeeded" for name in names):
        assert time.monotonic() < deadline_s, cells(desk, None)
        time.sleep(0.5)


def successes(box: Box, run: str) -> int:
    """How often a run succeeded on a box."""
    path = f"/root/.local/share/sojourn/runs/{run}/events.jsonl"
    lines = box.sh(f"cat {path} 2>/dev/null || true").splitlines()
    return sum('"kind":"ended"' in line and '"state":"succeeded"' in line for line in lines)


def test_nine_cells_on_three_boxes_survive_client_link_and_box(inside: Lab, away: Desk) -> None:
    one, two, three = inside.boxes
    child = away.start("sweep")
    deadline_s = time.monotonic() + 60
    while not (away.state / "journal.jsonl").exists() or not away.journal("queueing"):
        assert time.monotonic() < deadline_s and child.poll() is None
        time.sleep(0.02)
    child.kill()  # somewhere in the middle
    away.finish(child)
    assert away("sweep", "--json").json["exit"] == 0
    assert away("sweep", "--json").json["did"] == "nothing"
    placed = {name: cell["site"] for name, cell in cells(away).items()}
    assert sorted(placed.values()) == sorted(SITES * 3)

    two.fault("cut")
    three.fault("power-off")  # with its disk
    on_one = [name for name, site in placed.items() if site == SITES[0]]
    until_over(away, on_one)
    seen = away("reconcile", "ab", "--repair", "--json", rc=None).json
    assert len(seen["unknown"]) == 6 and not seen["relaunched"]  # what does not answer proves nothing
    two.heal()
    lost = [name for name, site in placed.items() if site == SITES[2]]
    repaired = away("reconcile", "ab", "--repair", "--abandon", SITES[2], "--json", rc=None).json
    assert sorted(repaired["relaunched"]) == sorted(lost)
    until_over(away, list(placed))

    away("pull", "ab")
    done = away("reconcile", "ab", "--json").json
    assert sorted(done["loaded"]) == sorted(placed) and not done["duplicates"] and not done["missing"]
    for name in placed:
        home = away.home / ".local/share/sojourn/home" / name / "result.json"
        epochs = int(name.split("epochs")[1].split("-")[0])
        assert json.loads(home.read_text())["value"] == result(epochs)
        assert successes(one, name) + successes(two, name) == 1
