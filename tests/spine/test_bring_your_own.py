"""docs/bring-your-own.md is run from top to bottom, on a script that was not written for us."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.spine.conftest import Desk, wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/bring-your-own.md"


def commands(heading: str) -> list[list[str]]:
    """The commands of one section, as words behind `sojourn`."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for block in re.findall(r"(?ms)^```sh\n(.*?)^```", section) for line in block.splitlines()]
    assert lines and all(line.startswith("sojourn ") for line in lines)
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.campaign
def test_the_page_takes_a_script_of_somebody_else_all_the_way(desk: Desk) -> None:
    theirs = desk.project.with_name("theirs")
    shutil.copytree(ROOT / "tests/projects/numpy_loop", theirs)
    desk.project = theirs
    for words in commands("Look at it"):
        desk(*words)
    job = theirs / "sojourn.yaml"
    job.write_text(job.read_text().replace("run: python3 train.py", "run: python3 train.py --pause 0.1 --epochs 8"))
    for words in commands("Run it"):
        if words[0] == "exec":
            wait_for(lambda: "Epoch 3/8" in desk.log("theirs"))
            assert "weights" in desk(*words).out
        else:
            desk(*words)
    desk.until(lambda row: row["progress"]["total"] == 80, "theirs")
    desk.kill_training("theirs")
    desk.final("theirs")
    for words in commands("If it dies"):
        desk(*words, rc=None)
    wait_for(lambda: "Epoch" in desk.log("theirs", 2))
    assert "Epoch 1/8" not in desk.log("theirs", 2)
    for words in commands("Bring it home"):
        desk(*words, rc=110 if words[0] == "watch" else 0)  # succeeded, and not home yet
    assert (theirs / "results/final.npy").exists()


def test_every_variable_that_a_training_finds_is_in_the_table() -> None:
    source = (ROOT / "src/sojourn/box/supervise/environment.py").read_text()
    source += (ROOT / "src/sojourn/box/supervise/attempt.py").read_text()
    set_there = set(re.findall(r"\b(SOJOURN_[A-Z_]+)(?==|\"\])", source)) - {"SOJOURN_SEAT"}
    table = (ROOT / "docs/job-file.md").read_text()
    assert {"SOJOURN_RUN_DIR", "SOJOURN_RESUME_FROM"} <= set_there
    assert [name for name in sorted(set_there) if f"`{name}`" not in table] == []
