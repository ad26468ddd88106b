"""The last step of what has ended is shown; and while nobody can ask, ages grow."""

import time

from sojourn.core.values import State
from sojourn.verbs.observe.status import status
from tests.verbs.conftest import World

TRAIN = """
from sojourn.train import Checkpointer
ckpt = Checkpointer(state={}, every_s=1000)
for _ in ckpt.batches(range(600)):
    ckpt.step(loss=1.0 / (ckpt.step_count + 1))
"""


def test_a_run_that_succeeded_shows_its_last_step_and_loss(world: World) -> None:
    (world.project / "train.py").write_text(TRAIN)
    world.ended("python train.py")
    (row,) = status(world.ctx).rows
    assert (row.state, row.step, row.metrics) == (State.SUCCEEDED, 600, {"loss": 1 / 600})


def test_the_age_of_the_log_grows_while_its_site_does_not_answer(world: World) -> None:
    world.run("echo begun; sleep 600")
    while (status(world.ctx).rows[0].log_age_s or 0) <= 0 or world.record().heard.log_age_s is None:
        time.sleep(0.05)
    (known,) = status(world.ctx).rows
    world.transport.is_cut = True
    world.later_s += 3600
    (row,) = status(world.ctx).rows
    assert row.reach.ok is False and row.state is State.RUNNING
    assert row.log_age_s is not None and known.log_age_s is not None and row.log_age_s >= 3600
    world.later_s += 3600
    assert status(world.ctx).rows[0].log_age_s >= 7200
    world.transport.is_cut = False
    assert status(world.ctx).rows[0].log_age_s < 3600  # the box says it again, by its own clock
