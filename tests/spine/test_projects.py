"""Scripts that know nothing of sojourn, as their authors write them: `init`, `run`, kill, `resume`, home, proven.

Replay one walk with `.venv/bin/python -m tests.kills --project NAME --site local --seed N --kills N`.
"""

from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from tests import reliability
from tests.kills import places, report
from tests.kills.places import Place
from tests.kills.projects import ALL, NAMED
from tests.kills.strikes import Strike, schedule
from tests.kills.walk import walk
from tests.lab import lab as laboratory
from tests.lab.lab import Box, Lab
from tests.spine.conftest import Desk, wait_for

pytest_plugins = ["tests.lab.fixtures"]
EACH = [pytest.param(one.name, id=one.name, marks=one.marks) for one in ALL]
QUICK = ("numpy_loop", "shell")  # the others take minutes


@pytest.fixture(scope="session")
def trainer_box(lab: Lab) -> Box:
    """One box more, with this Python in it and room for a trainer."""
    number = len(lab.boxes) + 1
    laboratory.boxes("up", str(number), BOX_SHOW=places.shown(), **places.KNOBS)
    return Box(number)


@pytest.fixture
def away(trainer_box: Box, ssh_config: Path, desk: Desk) -> Iterator[Place]:
    trainer_box.clear()
    desk.env.update(SOJOURN_SSH_CONFIG=str(ssh_config))
    yield places.box(trainer_box.number, desk.home)
    trainer_box.clear()


@pytest.mark.campaign(keep=1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name", sorted((one for one in EACH if one.id in QUICK), key=lambda one: QUICK.index(str(one.id)))
)
def test_a_script_of_somebody_else_loses_no_more_than_its_own_interval(desk: Desk, name: str) -> None:
    found = walk(desk, NAMED[name], places.here(desk.home), 1, schedule(len(name), 2))
    assert found.strikes


@pytest.mark.campaign
@pytest.mark.lab
def test_nor_does_it_on_a_box_over_ssh_whose_keeper_is_killed_too(desk: Desk, away: Place) -> None:
    strikes = [
        Strike("keeper", SIGKILL, "step", 0.3),
        Strike("both", SIGKILL, "save", 0.5),
        Strike("process", SIGTERM, "step", 0.5),
    ]
    found = walk(desk, NAMED["numpy_loop"], away, 1, strikes)
    assert found.adopted == 1  # on a busy machine the training may end before the others


@pytest.mark.campaign
@pytest.mark.trials(campaign=4, soak=20)
@pytest.mark.lab
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("site", ["local", "ssh"])
@pytest.mark.parametrize("name", EACH)
def test_many_kills_lose_no_more(
    trial_count: int,
    desk: Desk,
    name: str,
    site: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`trial_count`: kills. Writes docs/reliability.md, once each walk is in the ledger."""
    place = request.getfixturevalue("away") if site == "ssh" else places.here(desk.home)
    with capsys.disabled():  # a silent hour would be a bug
        found = walk(desk, NAMED[name], place, 1, schedule(1, trial_count))
    ledger = Path(request.config.rootpath) / "build/kills.jsonl"
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a") as f:
        f.write(found.as_json() + "\n")
    walks = report.read(ledger)
    if report.is_whole(walks):
        reliability.put(report.TITLE, report.lines(walks), sum(one.seconds for one in walks))


FORGETFUL = """
import sys, time
import numpy as np
for it in range(600):
    print("iter %d: loss 1.0" % it, flush=True)
    time.sleep(0.1)
    if it % 20 == 10:
        np.savez("out-model.npz", it=it)
"""


@pytest.mark.campaign
def test_an_attempt_that_starts_over_is_an_alarm_and_a_verdict(desk: Desk) -> None:
    (desk.project / "train.py").write_text(FORGETFUL)
    desk.job("python train.py", name="theirs", outputs=["out-model.npz"])
    said = desk("run").err
    assert "to keep them, add to sojourn.yaml: persist: [out-model.npz]" in said.replace("\n         ", " ")
    wait_for(lambda: "iter 15" in desk.log("theirs"))
    desk.kill_training("theirs")
    desk.final("theirs")
    desk("resume", "theirs")
    wait_for(lambda: any(event["kind"] == "restarted" for event in desk.events("theirs")))
    assert "began at step 0, although attempts/2/out-model.npz was there" in desk.row("theirs")["reason"]
    assert desk.row("theirs")["progress"]["step"] is not None
    verdict = desk("why", "theirs", "--json", rc=None).json
    assert verdict["verdict"]["id"] == "restarted-from-zero", verdict
