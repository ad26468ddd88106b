"""A sweep over three bare boxes: the client dies, one box is cut off, one goes for good."""

import itertools
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
SLOW_S = 300.0  # for a command that speaks to three boxes, on a busy machine
SITES = ["ssh:box1", "ssh:box2", "ssh:box3"]
GATE = "/srv/gate"


@pytest.fixture
def away(ssh_config: Path, inside: Lab, desk: Desk) -> Iterator[Desk]:
    """A user with nine cells of different length; each epoch of them takes a box 0.1 s, and each waits before its
    fourth until its box has a gate.
    """
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    matrix = {"epochs": [6, 10, 14], "seed": [0, 1, 2]}
    desk.job(f"python3 train.py ${{epochs}} 0.1 {GATE}", name="ab", candidates=SITES, sweep={"matrix": matrix})
    for box in inside.boxes:
        box.clear()
        box.sh(f"rm -rf {GATE}")
    yield desk
    for box in inside.boxes:
        box.heal()
        box.clear()


def cells(desk: Desk, rc: int | None = 0) -> dict[str, dict[str, str]]:
    """The cells by name, as `status` has them."""
    said = desk("status", "ab", "--json", rc=rc, timeout_s=SLOW_S).json
    return {row["id"]: {"state": row["state"], "site": row["site"]} for row in said["runs"]}


def until_over(desk: Desk, names: list[str], within_s: float = 300) -> None:
    deadline_s = time.monotonic() + within_s
    while not all(cells(desk, None)[name]["state"] == "succeeded" for name in names):
        assert time.monotonic() < deadline_s, cells(desk, None)
        time.sleep(0.5)


def successes(box: Box, run: str) -> int:
    """How often a run succeeded on a box."""
    path = f"/root/.local/share/sojourn/runs/{run}/events.jsonl"
    lines = box.sh(f"cat {path} 2>/dev/null || true").splitlines()
    return sum('"kind":"ended"' in line and '"state":"succeeded"' in line for line in lines)


@pytest.mark.campaign
def test_nine_cells_on_three_boxes_survive_client_link_and_box(inside: Lab, away: Desk) -> None:
    one, two, three = inside.boxes
    child = away.start("sweep")
    deadline_s = time.monotonic() + 240
    while not (away.state / "journal.jsonl").exists() or not away.journal("queueing"):
        assert time.monotonic() < deadline_s and child.poll() is None
        time.sleep(0.02)
    child.kill()  # somewhere in the middle
    away.finish(child)
    assert away("sweep", "--json", timeout_s=SLOW_S).json["exit"] == 0
    assert away("sweep", "--json", timeout_s=SLOW_S).json["did"] == "nothing"
    placed = {name: cell["site"] for name, cell in cells(away).items()}
    assert sorted(placed.values()) == sorted(SITES * 3)

    two.fault("cut")
    three.fault("power-off")  # with its disk
    for box in (one, two):
        box.sh(f"mkdir -p /srv; touch {GATE}")
    on_one = [name for name, site in placed.items() if site == SITES[0]]
    until_over(away, on_one)
    seen = away("reconcile", "ab", "--repair", "--json", rc=None, timeout_s=SLOW_S).json
    assert len(seen["unknown"]) == 6 and not seen["relaunched"]  # what does not answer proves nothing
    two.heal()
    lost = [name for name, site in placed.items() if site == SITES[2]]
    repaired = away("reconcile", "ab", "--repair", "--abandon", SITES[2], "--json", rc=None, timeout_s=SLOW_S).json
    assert sorted(repaired["relaunched"]) == sorted(lost)
    until_over(away, list(placed))

    away("pull", "ab", timeout_s=SLOW_S)
    done = away("reconcile", "ab", "--json", timeout_s=SLOW_S).json
    assert sorted(done["loaded"]) == sorted(placed) and not done["duplicates"] and not done["missing"]
    for name in placed:
        home = away.home / ".local/share/sojourn/home" / name / "result.json"
        epochs = int(name.split("epochs")[1].split("-")[0])
        assert json.loads(home.read_text())["value"] == result(epochs)
        assert successes(one, name) + successes(two, name) == 1


def best(costs: list[float], paces: list[float]) -> float:
    """The least time in which boxes of these paces can do these cells one after the other."""
    ends = (
        [sum(cost * paces[box] for cost, at in zip(costs, chosen, strict=True) if at == box) for box in range(3)]
        for chosen in itertools.product(range(3), repeat=len(costs))
    )
    return min(max(end) for end in ends)


def measured_pace(box: Box) -> float:
    """Seconds that an epoch took on a box, over all cells that ended there."""
    folder = "/root/.local/share/sojourn/runs"
    lines = box.sh(f'grep -H \'"kind":"ended"\' {folder}/*/events.jsonl').splitlines()
    ends = [line.partition(":") for line in lines]
    epochs = sum(int(path.split("epochs")[1].split("-")[0]) for path, _, _ in ends)
    return sum(float(json.loads(event)["seconds"]) for _, _, event in ends) / epochs


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["told", "learned"])
def test_boxes_of_different_speed_are_done_near_the_best_time_there_is(inside: Lab, away: Desk, how: str) -> None:
    paces = [0.8, 0.4, 0.2]  # seconds that an epoch takes
    settings = away.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    tables = []
    for box, pace in zip(inside.boxes, paces, strict=True):
        box.sh(f"echo {pace} > /srv/pace")
        speed = f"speed = {0.8 / pace}\n" if how == "told" else ""
        tables.append(f'[sites.b{box.number}]\ntransport = "ssh"\naddress = "box{box.number}"\n{speed}')
    settings.write_text("".join(tables))
    matrix = {"epochs": [40, 60, 80], "seed": [0, 1, 2]}
    away.job(
        "python3 train.py ${epochs} $(cat /srv/pace)",
        name="ab",
        candidates=[f"b{box.number}" for box in inside.boxes],
        sweep={"matrix": matrix},
    )
    away("sweep", timeout_s=SLOW_S)
    began_s = time.monotonic()
    while not all(cell["state"] == "succeeded" for cell in cells(away, None).values()):
        assert time.monotonic() - began_s < 600
        time.sleep(2)
        if how == "learned":
            away("sweep", "--balance", timeout_s=SLOW_S)
    took_s = time.monotonic() - began_s
    costs = [float(epochs) for epochs in matrix["epochs"] for _ in matrix["seed"]]
    measured = [measured_pace(box) for box in inside.boxes]  # of this machine as busy as it was
    assert took_s <= 1.3 * best(costs, measured), (took_s, best(costs, measured), measured)
    away("pull", "ab", timeout_s=SLOW_S)
    away("reconcile", "ab", timeout_s=SLOW_S)
