"""Scripts that know nothing of sojourn, as their authors write them: `init`, `run`, kill, `resume`, home, proven."""

import random
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spine.conftest import Desk, wait_for

PROJECTS = Path(__file__).parents[1] / "projects"


@dataclass(frozen=True)
class Project:
    """A folder of tests/projects. `more`: words for its command that make it last a minute. `step`: what it prints for
    each step. `every`: the steps between two of its own saves.
    """

    name: str
    more: str
    step: str
    every: int
    last: int
    scale: int = 1  # steps for each unit of what it prints
    marks: tuple[pytest.MarkDecorator, ...] = ()


ALL = [
    Project("numpy_loop", " --pause 0.2 --epochs 12", r"Epoch (\d+)/12", 1, 12),
    Project("shell", "", r"step (\d+)/25 ", 5, 25, 1, (pytest.mark.torch,)),
    Project("nanogpt", " --max_iters=160 --pause=0.1", r"iter (\d+): loss", 20, 160, 1, (pytest.mark.torch,)),
    Project(
        "hf",
        " --max_steps 120 --save_steps 20 --logging_steps 1 --pause 0.1 --disable_tqdm True --use_cpu True",
        r"'loss': .*'epoch': '([\d.]+)'",
        20,
        120,
        64,
        (pytest.mark.adapters,),
    ),
    Project(
        "lightning",
        " --max_steps 150 --pause 0.1",
        r"\| +([1-9]\d*)/(?:150|\?) \[",
        20,
        150,
        1,
        (pytest.mark.adapters,),
    ),
]


def tried(desk: Desk, project: Project, kills: int, seed: int, site: str = "local") -> None:
    """Take it through everything. Fails where work older than the interval of its own saves was lost."""
    chance = random.Random(seed)
    shutil.rmtree(desk.project)
    shutil.copytree(PROJECTS / project.name, desk.project)
    desk("init", "--name", "theirs")
    file = desk.project / "sojourn.yaml"
    text = re.sub(r"(?m)^(run|resume): \"?(.*?)\"?(    #.*)?$", lambda hit: with_words(hit, project), file.read_text())
    file.write_text(text)
    desk("run", "--site", site)
    done = 0
    for number in range(1, kills + 1):
        wait_for(lambda: newest(desk, project, number) >= min(done + project.every * 1.3, project.last), 1200)  # noqa: B023
        time.sleep(chance.uniform(0.0, 2.0))
        if desk.row("theirs")["state"] == "succeeded":
            break
        desk.kill_training("theirs")
        desk.final("theirs")
        before, done = done, newest(desk, project, number)
        desk("resume", "theirs")
        wait_for(lambda: newest(desk, project, number + 1) > 0 or is_over(desk), 1200)  # noqa: B023
        first = oldest(desk, project, number + 1)
        assert done - first <= project.every + 1, f"killed at {done} (from {before}), resumed at {first}"
    desk.until(lambda row: row["state"] == "succeeded", "theirs", within_s=1200)
    desk.is_left("theirs")
    desk("pull", "theirs", "--to", "home")
    desk("verify", "home")
    where = desk.row("theirs")["site"]
    desk("down", where, "--confirm", where)


def with_words(hit: "re.Match[str]", project: Project) -> str:
    return f"{hit[1]}: |\n  " + hit[2].replace('\\"', '"') + project.more


def steps(desk: Desk, project: Project, attempt: int) -> list[int]:
    return [round(float(found) * project.scale) for found in re.findall(project.step, desk.log("theirs", attempt))]


def newest(desk: Desk, project: Project, attempt: int) -> int:
    return max(steps(desk, project, attempt) or [0])


def oldest(desk: Desk, project: Project, attempt: int) -> int:
    return min(steps(desk, project, attempt) or [project.last])


def is_over(desk: Desk) -> bool:
    return str(desk.row("theirs")["state"]) in ("succeeded", "failed", "killed")


@pytest.mark.campaign(keep=1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("project", [pytest.param(one, id=one.name, marks=one.marks) for one in ALL])
def test_a_script_of_somebody_else_loses_no_more_than_its_own_interval(desk: Desk, project: Project) -> None:
    tried(desk, project, kills=1, seed=len(project.name))


@pytest.mark.campaign
@pytest.mark.trials(campaign=3, soak=20)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("project", [pytest.param(one, id=one.name, marks=one.marks) for one in ALL])
def test_many_kills_lose_no_more(trial_count: int, desk: Desk, project: Project) -> None:
    tried(desk, project, kills=trial_count, seed=1)


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
