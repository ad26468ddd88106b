"""`rules` of a job file: the user's own causes, first match wins; they steer retry, and `why` and `status` say them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import Site
from sojourn.verbs.context import Box
from sojourn.verbs.explain import why
from sojourn.verbs.launch import bidding
from sojourn.verbs.launch.prepare import prepare
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.observe.status import status
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.verbs.conftest import World

FLAKE = {"name": "cuda-flake", "pattern": "CUDNN_STATUS_EXECUTION_FAILED", "action": "retry"}
BROKEN = {"name": "broken-data", "pattern": "bad shard [0-9]+", "action": "fail"}
# Fails once with the text given, and then succeeds.
ONCE = 'test -e "$SOJOURN_RUN_DIR/again" && exit 0; touch "$SOJOURN_RUN_DIR/again"; echo "%s"; exit 1'


def events(world: World, kind: str) -> list[dict[str, Any]]:
    rows = map(json.loads, (world.root() / "events.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


def reason(world: World) -> str:
    return status(world.ctx).rows[0].reason


def test_a_rule_retries_what_is_never_retried_otherwise(world: World) -> None:
    world.ended(ONCE % "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", rules=[FLAKE])
    assert world.record().status.state.value == "succeeded" and world.record().status.attempt == 2
    (ruled,) = events(world, "ruled")
    assert (ruled["rule"], ruled["action"], ruled["attempt"]) == ("cuda-flake", "retry", 1)
    assert ruled["line"] == "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"


def test_an_error_that_no_rule_names_is_not_retried(world: World) -> None:
    world.ended(ONCE % "KeyError: lr", rules=[FLAKE])
    assert (world.record().status.state.value, world.record().status.attempt) == ("failed", 1)


def test_the_first_rule_that_fits_decides_wherever_its_line_stands(world: World) -> None:
    script = ONCE % "CUDNN_STATUS_EXECUTION_FAILED" + "; echo bad shard 7"
    script = script.replace("exit 1; echo bad shard 7", "echo bad shard 7; exit 1")
    world.ended(script, rules=[BROKEN, FLAKE])
    assert world.record().status.attempt == 1 and events(world, "ruled")[0]["rule"] == "broken-data"


def test_a_rule_keeps_what_retry_would_have_tried_again(world: World) -> None:
    keys = {"retry": {"attempts": 3, "on": ["preempted", "node-failure"]}, "rules": [BROKEN]}
    world.ended("echo bad shard 3; kill -9 $$", **keys)
    assert (world.record().status.attempt, events(world, "ruled")[0]["action"]) == (1, "fail")


def test_attempts_are_bounded_though_the_rule_fits_each_time(world: World) -> None:
    world.ended("echo CUDNN_STATUS_EXECUTION_FAILED; exit 1", rules=[FLAKE], retry={"attempts": 2})
    assert world.record().status.attempt == 2
    assert [row["attempt"] for row in events(world, "ruled")] == [1, 2]


def test_a_rule_of_what_was_stopped_or_succeeded_is_not_asked(world: World) -> None:
    world.ended("echo CUDNN_STATUS_EXECUTION_FAILED", rules=[FLAKE])
    assert world.record().status.attempt == 1 and events(world, "ruled") == []


def test_why_and_status_say_the_users_own_cause_before_ours(world: World, tmp_path: Path) -> None:
    world.ended("echo 'OSError: [Errno 24] Too many open files'; echo bad shard 3; exit 1", rules=[FLAKE, BROKEN])
    answer = why.of_run(world.ctx, "digits", save=str(tmp_path / "kept.json"))
    assert answer.judged.verdict is not None and answer.judged.verdict.id == "rule:broken-data"
    assert [f.id for f in answer.judged.findings][:2] == ["rule:broken-data", "too-many-open-files"]
    assert reason(world) == "exit status 1: your rule broken-data (fail): bad shard 3"
    again = why.of_evidence(str(tmp_path / "kept.json"))
    assert again.judged.verdict is not None and again.judged.verdict.id == "rule:broken-data"


def test_a_secret_in_the_line_that_fits_is_hidden(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cr3t-value-of-mine")
    world.ended('echo "bad shard 3 $KEY"; exit 1', rules=[BROKEN], secrets=["KEY"])
    assert "s3cr3t" not in (world.root() / "events.jsonl").read_text()


def test_a_pattern_that_never_ends_costs_its_own_time_and_fits_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.box.run.root import Root
    from sojourn.box.supervise import user_rules

    world.ended("echo " + "a" * 40 + "b; exit 1")
    rules = [{"name": "slow", "pattern": "(a+)+$", "action": "retry"}]
    monkeypatch.setattr(user_rules, "_LOOK_S", 0.5)
    told = user_rules._judged(Root(str(world.root())), 1, rules)
    assert (told["rule"], told["action"]) == ("", "") and told["detail"]


def test_a_site_that_a_rule_excludes_is_left_out_and_the_run_there_is_not_begun_again(world: World) -> None:
    rule = {"name": "sick-box", "pattern": "ECC", "action": "exclude-site"}
    other = Site("other", base=world.site.base + "-other")
    mine = world.ctx.boxes["local"]
    world.ctx.boxes["other"] = Box(other, mine.transport, mine.launcher, mine.provider, mine.keeper)
    keys = {"candidates": ["local", "other"], "rules": [rule], "retry": {"attempts": 3, "on": ["node-failure"]}}
    world.ended("echo uncorrectable ECC error; exit 1", **keys)
    assert world.record().status.attempt == 1
    with pytest.raises(bidding.NotHere, match="your rule sick-box excludes local"):
        world.run("echo uncorrectable ECC error; exit 1", **keys)
    prepared = prepare(world.ctx, RunRequest(str(world.project / "sojourn.yaml"), name="second", env={}))
    assert list(bidding.excluded_by_rule(world.ctx, prepared.job)) == ["local"]
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[sites.other]\ntransport = "local"\nbase = "{other.base}"\n')
    keys.pop("retry")
    swept = sweep(
        world.ctx, SweepRequest(world.job("true", **keys, outputs=[], sweep={"matrix": {"seed": [1, 2]}}, name="many"))
    )
    assert [part.site for part in swept.sites] == ["other"]
    assert any("local is left out" in remark and "sick-box" in remark for remark in swept.remarks)
