"""The command that `plan` ends with: what helps against a blocker, never the `run` that the blocker would stop."""

import pytest

from sojourn.verbs.launch.plan import mending, plan
from sojourn.verbs.launch.prepare import prepare
from sojourn.verbs.launch.request import RunRequest
from tests.verbs.conftest import World


def test_without_a_blocker_it_is_run(world: World) -> None:
    assert plan(world.ctx, RunRequest(world.job("true"))).next == "sojourn run"


def test_after_what_the_job_file_asks_for_in_vain_it_is_plan_with_the_same_words(world: World) -> None:
    file = world.job("true", resources={"cpus": "4096+"})
    answer = plan(world.ctx, RunRequest(file, env={"A": "b c"}))
    assert answer.exit_status == 11 and answer.findings[0].id == "resources-not-met"
    assert answer.next == f"sojourn plan {file} --env 'A=b c'"


@pytest.mark.parametrize(
    ("blocker", "command"),
    [
        ("disk-too-small", "sojourn clean hpc"),
        ("inodes-too-few", "sojourn clean hpc"),
        ("over-max-price", "sojourn offers {file}"),
        ("scheduler-refuses", "sojourn plan --site hpc {file}"),
        ("no-python", "sojourn doctor hpc"),
    ],
)
def test_each_blocker_has_the_command_that_helps(world: World, blocker: str, command: str) -> None:
    file = world.job("true")
    prepared = prepare(world.ctx, RunRequest(file))
    assert mending(blocker, prepared, "hpc") == command.format(file=file)
