"""What a checkpoint holds is held against what its run said, and what a file lists against what was asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.artifact import Artifact
from sojourn.verbs.retrieve.expected import lacking_keys, step_remarks
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World

SCRIPT = """
import numpy as np
from sojourn.train import Checkpointer

class Model:
    def __init__(self):
        self.w = np.arange(100.0)
    def state_dict(self):
        return {"w": self.w}
    def load_state_dict(self, state):
        self.w = state["w"]

ckpt = Checkpointer(model=Model(), background=False)
for epoch in ckpt.epochs(4):
    for batch in ckpt.batches(range(5)):
        ckpt.step(loss=1.0)
    ckpt.end_epoch(accuracy=0.5)
    if epoch == 1:
        break
"""


def item(step: int, path: str = "checkpoints/ckpt-1.pt") -> Artifact:
    return Artifact(path, facts={"sojourn": {"step": step}})


@pytest.mark.parametrize(
    "step, planned, saved_step, is_done, says",
    [
        (20, 20, 20, True, ""),
        (10, 20, 10, True, "step 10 of the 20"),
        (10, 20, 10, False, ""),
        (10, None, 10, True, ""),
        (10, 20, 15, True, "said that it saved step 15"),
        (25, 20, 25, True, "planned 20"),
    ],
)
def test_a_step_that_does_not_fit_the_run_is_remarked(
    step: int, planned: int | None, saved_step: int, is_done: bool, says: str
) -> None:
    saved = {"path": "checkpoints/ckpt-1.pt", "step": saved_step}
    before = item(min(step, planned or step) - 1, path="checkpoints/ckpt-0.pt")
    found = step_remarks([before, item(step)], planned=planned, saved=saved, is_done=is_done)
    assert (says in found["checkpoints/ckpt-1.pt"]) if says else found == {}


def test_nothing_is_said_of_other_files_and_of_bad_ones() -> None:
    others = [
        item(3, path="best.pt"),
        replace(item(3), problem="corrupt"),
        Artifact("checkpoints/ckpt-2.pt"),
    ]
    assert step_remarks(others, planned=20, saved={"path": "checkpoints/ckpt-1.pt", "step": 9}, is_done=True) == {}


@pytest.mark.parametrize(
    "facts, lacking, is_whole",
    [
        ({"keys": ["a", "b"], "count": 2}, ["c"], True),
        ({"keys": [f"k{n}" for n in range(256)]}, ["a", "c"], False),
        ({"header": ["a", "c"], "columns": 2}, [], False),
        ({"tensors": 2, "first": [{"key": "a"}, {"key": "c"}]}, [], True),
        ({"tensors": 99, "first": [{"key": "a"}]}, ["c"], False),
        ({}, ["a", "c"], True),
    ],
)
def test_keys_that_a_file_does_not_list_are_named(facts: dict[str, Any], lacking: list[str], is_whole: bool) -> None:
    found = lacking_keys(facts, ["a", "c"])
    assert found[0] == lacking
    assert not lacking or found[1] == is_whole


def test_a_run_that_ended_before_its_plan_says_so_when_it_is_pulled(world: World, tmp_path: Path) -> None:
    import shlex
    import sys

    world.ended(f"{shlex.quote(sys.executable)} -c {shlex.quote(SCRIPT)}", outputs=["checkpoints/*.pt"])
    (answer,) = pull(world.ctx, ["digits"], to=str(tmp_path / "home"))
    assert answer.ok, answer.why
    remarks = [remark for artifact in answer.artifacts for remark in artifact.remarks]
    assert any("step 10 of the 20 that it planned" in remark for remark in remarks), answer.artifacts
