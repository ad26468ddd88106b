"""What `plan` judges of checkpoints, notice and traffic, and what a platform sets in every run."""

import json
from dataclasses import replace
from typing import Any

from sojourn.cli.show import plan as show_plan
from sojourn.core.values import Site
from sojourn.store.catalog import environment, platform
from sojourn.store.job.values import JobFile
from sojourn.verbs.launch import stakes
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.stakes import Earlier
from tests.verbs.conftest import World

JOB = JobFile(path="sojourn.yaml", name="digits", workdir=".", run="python train.py")
GIB = 1 << 30


def told(name: str, before: Earlier, *, path: str = "", disk: dict[str, Any] | None = None) -> list[str]:
    facts = platform(name)
    survival = {"path": path, "verb": facts.stop_verb, "survives": facts.keeps(path) if path else None, "why": "so"}
    found = stakes.findings(facts, Site("s", platform=name), JOB, before, survival, disk or {})
    return [one.id for one in found]


def test_checkpoints_on_a_disk_that_a_stop_wipes_are_a_warning() -> None:
    assert told("gpushare", Earlier(), path="/root/.local/share/sojourn") == ["checkpoints-on-passing-disk"]
    assert told("gpushare", Earlier(), path="/hy-netdisk/sojourn") == []
    assert told("runpod", Earlier(), path="/root/sojourn") == ["checkpoints-on-passing-disk"]
    assert told("runpod", Earlier(), path="/workspace/sojourn") == []


def test_checkpoints_times_their_number_must_fit_on_the_disk() -> None:
    disk = {"path": "/data", "free_bytes": 10 * GIB, "needed_bytes": GIB}
    assert told("generic-ssh", Earlier("digits", checkpoint_bytes=3 * GIB), disk=disk) == ["disk-plan-too-large"]
    assert told("generic-ssh", Earlier("digits", checkpoint_bytes=2 * GIB), disk=disk) == []


def test_a_save_that_takes_longer_than_the_notice_is_a_warning() -> None:
    assert told("runpod", Earlier("digits", write_s=40.0)) == ["spot-save-too-slow"]
    assert told("runpod", Earlier("digits", write_s=2.0)) == []
    assert told("lambda", Earlier("digits", write_s=40.0)) == []  # nothing interrupts there


def test_traffic_out_is_priced_by_what_came_home_before() -> None:
    before = Earlier("digits-1", home_bytes=5 * GIB)
    said = list(stakes.remarks(platform("vastai"), JOB, before, 20_000, "USD", is_free=False))
    assert said[0] == "traffic out costs 0.02 USD per GiB: 0.10 USD for 5.00 GiB, as digits-1 brought home"
    assert "no `smoke` command" in said[1]
    tried = replace(JOB, smoke="python train.py --steps 2")
    assert list(stakes.remarks(platform("runpod"), tried, before, 0, "USD", is_free=False)) == []
    assert list(stakes.remarks(platform("local"), JOB, before, None, "USD", is_free=True)) == []


def test_a_run_on_autodl_sees_the_mirror_and_may_be_told_not_to(world: World) -> None:
    def on(platform: str, **options: Any) -> None:
        world.ctx.boxes["local"] = replace(
            world.ctx.boxes["local"], site=replace(world.site, platform=platform, options=options)
        )

    on("autodl", is_free=True)
    answer = plan(world.ctx, RunRequest(world.job("true", outputs=[])))
    assert answer.platform_env == environment("autodl")
    assert "HF_ENDPOINT=https://hf-mirror.com" in "\n".join(show_plan.lines(answer, 400))
    world.ended('echo "{\\"seen\\": \\"$HF_ENDPOINT\\"}" > $SOJOURN_RUN_DIR/seen.json', outputs=[])
    assert json.loads((world.root() / "seen.json").read_text()) == {"seen": "https://hf-mirror.com"}
    on("autodl", platform_env=False)
    assert plan(world.ctx, RunRequest(world.job("true", outputs=[]))).platform_env == {}
