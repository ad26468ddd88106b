"""`pull --follow`: checkpoints and metrics come home while the run is alive, and `status` says what would be lost."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.transport import local
from sojourn.verbs.moving import Pace
from sojourn.verbs.observe.status import status
from sojourn.verbs.retrieve.choice import choose
from sojourn.verbs.retrieve.follow import Brought, NotFollowed, finished, follow
from sojourn.wire import units
from tests.verbs.conftest import World

# Saves at each step that the test asks for, and ends when it is told.
TRAINS = """
python3 - <<'END'
import json, os, time
import numpy as np
from sojourn.train import Checkpointer

class Model:
    def state_dict(self):
        return {"w": np.arange(100.0)}
    def load_state_dict(self, state):
        pass

ckpt = Checkpointer(model=Model(), background=False, every_steps=1, keep=3)
for batch in ckpt.batches(range(100)):
    ckpt.step(loss=1.0)
    with open("metrics.json", "w") as f:
        json.dump({"step": ckpt.step_count}, f)
    go = os.environ["SOJOURN_RUN_DIR"] + "/go-%d" % (ckpt.step_count + 1)
    while not os.path.exists(go):
        time.sleep(0.02)
    if open(go).read():
        break
END
"""


class Followed:
    """A training that waits for us between its steps."""

    def __init__(self, world: World, to: Path) -> None:
        self.world, self.to = world, to
        world.transport.stream = local.Backend().stream  # type: ignore[attr-defined]
        world.run(TRAINS, outputs=["metrics.json"])
        self.looks: Iterator[Brought] = follow(
            world.ctx, ["digits"], to=str(to), every_s=0.05, keep=2, pace=Pace(50 << 20)
        )

    def go(self, step: int, end: str = "") -> None:
        (self.world.root() / f"go-{step}").write_text(end)

    def brought(self, step: int) -> Brought:
        """Look until the checkpoint of this step is here."""
        return next(one for one in self.looks if one.step == step or one.is_over)

    def here(self) -> list[str]:
        return sorted(path.name for path in (self.to / "checkpoints").iterdir())

    def row(self) -> Any:
        (row,) = status(self.world.ctx).rows
        return row


@pytest.fixture
def followed(world: World, tmp_path: Path) -> Followed:
    return Followed(world, tmp_path / "home")


def test_each_finished_checkpoint_is_here_while_the_run_goes_on_and_status_says_what_a_lost_box_would_take(
    followed: Followed,
) -> None:
    assert followed.row().at_risk["checkpoint"] is None
    for step in (1, 2, 3):
        assert followed.brought(step).checkpoint == f"ckpt-t000001-s{step:08}.pt"
        followed.go(step + 1)
    assert followed.here() == ["ckpt-t000001-s00000002.pt", "ckpt-t000001-s00000003.pt"]
    assert not [path for path in followed.to.iterdir() if path.name.startswith(".sojourn-staging")]
    while (row := followed.row()).step != 4:
        time.sleep(0.05)
    assert (row.at_risk["checkpoint"], row.at_risk["steps"]) == ("ckpt-t000001-s00000003.pt", 1)
    assert 0 < row.at_risk["seconds"] < 600 and row.as_json()["at_risk"] == row.at_risk
    followed.go(5, end="now")
    assert next(one for one in followed.looks if one.is_over).files == 0
    assert not followed.world.record().receipts and followed.row().at_risk == {}


def test_a_box_that_does_not_answer_is_asked_again(followed: Followed) -> None:
    followed.world.transport.is_cut = True
    followed.world.ctx.sleep = lambda seconds: setattr(followed.world.transport, "is_cut", False)
    assert followed.brought(1).step == 1
    assert any("Next try in" in line for line in followed.world.said)


def test_one_run_that_was_launched_is_followed(world: World) -> None:
    with pytest.raises(NotFollowed):
        next(follow(world.ctx, [], pace=Pace()))


def test_of_weights_that_a_script_saves_only_those_that_nobody_writes_to_come() -> None:
    def row(path: str, age_s: float, **more: Any) -> Any:
        stat = [1, 1, 9, int((1_000_000 - age_s) * 1e9), 1]
        return {"path": path, "from": path, "bytes": 9, "sha256": "a" * 64, "role": "output", "stat": stat, **more}

    files = [
        row("new.pt", 1.0),
        row("old.pt", 900.0),
        row("older.pt", 950.0),
        row("oldest.pt", 990.0),
        row("torn.pt", 800.0, changed=True),
        row("data.dat", 900.0),
        row("metrics.csv", 1.0),
    ]
    document: Any = {"files": files, "at": units.stamp(1_000_000.0)}
    assert len(choose(document, ["*"], is_live=False).chains) == len(files)
    assert [one["path"] for one in finished(document, ["*"], 2)] == ["metrics.csv", "old.pt", "older.pt"]


def test_a_rate_is_kept_on_average() -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    pace = Pace(1000, lambda: now_s, sleep)
    for _ in range(50):
        pace.take(200)
    assert 9.7 <= now_s <= 10.0
