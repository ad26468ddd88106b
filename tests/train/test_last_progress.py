"""The last step and loss are told at the exit of the training, however soon after the writing before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SRC = str(Path(__file__).parents[2] / "src")
LOOP = """
from sojourn.train import Checkpointer
ckpt = Checkpointer(state={}, every_s=1000)
for step in range(1, 601):
    ckpt.step(loss=1.0 / step)
"""


def told(tmp_path: Path, script: str, rc: int = 0) -> Any:
    path = tmp_path / "progress.json"
    env = {**os.environ, "PYTHONPATH": SRC, "SOJOURN_PROGRESS": str(path), "SOJOURN_RUN_DIR": str(tmp_path / "run")}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, timeout=120)
    assert done.returncode == rc, done.stderr.decode()
    return json.loads(path.read_text())


@pytest.mark.parametrize("end, rc", [("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)])
def test_the_last_step_of_a_training_that_ends_within_a_second_is_told(tmp_path: Path, end: str, rc: int) -> None:
    last = told(tmp_path, LOOP + end, rc)
    assert (last["step"], last["metrics"]) == (600, {"loss": 1 / 600})


def test_of_two_checkpointers_the_one_that_was_told_last_has_the_last_word(tmp_path: Path) -> None:
    script = (
        LOOP + "other = Checkpointer(folder='more', state={}, every_s=1000)\nfor _ in range(7): other.step(loss=0.5)\n"
    )
    last = told(tmp_path, script)
    assert (last["step"], last["metrics"]) == (7, {"loss": 0.5})


def test_a_child_that_the_training_forked_tells_nothing_at_its_exit(tmp_path: Path) -> None:
    fork = """
import os, sys
pid = os.fork()
if not pid:
    sys.exit(0)
os.waitpid(pid, 0)
print(open(os.environ["SOJOURN_PROGRESS"]).read())
import json
assert json.load(open(os.environ["SOJOURN_PROGRESS"]))["step"] < 600
"""
    assert (
        told(tmp_path, LOOP.replace("for step", "import time; ckpt.step(); time.sleep(1.1)\nfor step") + fork)["step"]
        == 601
    )
