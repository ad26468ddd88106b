"""Whole runs on a box of this machine: what earlier attempts made, and checkpoints that a run can resume from."""

import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import State
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.observe.status import status
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World

# Only the first attempt saves.
SAVES_ONCE = """
mkdir out
case $SOJOURN_ATTEMPT in 1) echo '{"step": 600}' > out/ckpt.json;; esac
echo attempt $SOJOURN_ATTEMPT; exit 1
"""
# Each attempt saves; the last one is torn.
SAVES_TORN = """
case $SOJOURN_ATTEMPT in
3) echo '{"step": ' > a.json;;
*) echo '{"step": '$SOJOURN_ATTEMPT'}' > a.json;;
esac
exit 1
"""
SUCCEEDS_AT_LAST = """
echo '{"step": '$SOJOURN_ATTEMPT'}' > a.json
case $SOJOURN_ATTEMPT in 1) echo '{}' > only-first.json;; esac
test $SOJOURN_ATTEMPT = 3
"""
TRAINS = """
python3 - <<'END'
import os
import numpy as np
from sojourn.train import Checkpointer

class Model:
    def state_dict(self):
        return {"w": np.arange(100.0)}
    def load_state_dict(self, state):
        pass

ckpt = Checkpointer(model=Model(), background=False, every_steps=1, keep=2)
for batch in ckpt.batches(range(9)):
    ckpt.step(loss=1.0)
    if ckpt.step_count == 7:
        os.kill(os.getpid(), 9)
END
"""


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def tried(world: World, script: str, times: int, **keys: Any) -> None:
    """Run it, and resume it until it was tried so often."""
    world.ended(script, **keys)
    for attempt in range(2, times + 1):
        resume(world.ctx, "digits")
        while not (world.record().is_settled and world.record().heard.attempt == attempt):
            status(world.ctx)
            time.sleep(0.05)


def test_nanogpt_whose_later_attempts_die_before_they_save_brings_the_first_ones_work(
    world: World, tmp_path: Path
) -> None:
    tried(world, SAVES_ONCE, 3, outputs=["out/ckpt.json"])
    assert world.record().heard.attempt == 3
    answer = pulled(world, tmp_path / "home")
    assert answer.exit_status == 0 and answer.missing == ()
    assert (tmp_path / "home/out/ckpt.json").read_bytes() == (world.root() / "attempts/1/out/ckpt.json").read_bytes()
    assert answer.taken == ()  # each later attempt began with it


def test_of_a_run_that_failed_three_times_the_newest_that_loads_is_brought(world: World, tmp_path: Path) -> None:
    tried(world, SAVES_TORN, 3, outputs=["a.json"])
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and (tmp_path / "home/a.json").read_text() == '{"step": 2}\n'
    assert (tmp_path / "home/a.json.unproven").read_text() == '{"step": \n'
    assert answer.taken[0].startswith("a.json: from attempt 2; the newer one of attempt 3 does not load (truncated")
    (failed,) = world.record().failed
    assert (failed["path"], failed["from"]) == ("a.json", "attempts/3/a.json")


@pytest.mark.campaign
def test_of_a_run_that_succeeded_at_last_its_own_files_come_and_what_only_the_others_made(
    world: World, tmp_path: Path
) -> None:
    tried(world, SUCCEEDS_AT_LAST, 3, outputs=["*.json"])
    assert world.record().heard.state is State.SUCCEEDED
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and (tmp_path / "home/a.json").read_text() == '{"step": 3}\n'
    assert answer.superseded == 2 and (tmp_path / "home/only-first.json").exists()
    assert "only-first.json: from attempt 1; no later attempt wrote one" in answer.taken


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_training_that_was_killed_brings_its_newest_checkpoint_or_the_one_before(
    world: World, tmp_path: Path, is_damaged: bool
) -> None:
    world.ended(TRAINS, outputs=["result.json"])
    newest, before = "ckpt-t000001-s00000007.pt", "ckpt-t000001-s00000006.pt"
    if is_damaged:
        path = world.root() / "checkpoints" / newest
        path.write_bytes(path.read_bytes()[:-100])
    answer = pulled(world, tmp_path / "home")
    assert answer.checkpoint == (before if is_damaged else newest), answer
    assert answer.missing == ("result.json",) and answer.exit_status == 1
    (receipt,) = world.record().receipts
    assert receipt.path == f"checkpoints/{answer.checkpoint}" and receipt.state != "bytes-only"
    assert Path(receipt.home).read_bytes() == (world.root() / receipt.path).read_bytes()
