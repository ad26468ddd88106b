"""A run that is alive and advancing, or done at its plan, was ended by nothing; counters of the box convict nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.diagnose import evidence
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas

SPECIMENS = Path(__file__).parents[1] / "specimens"
ENDS = {gotcha.id for gotcha in gotchas() if gotcha.ends}
ALIVE: dict[str, Any] = {"run.alive": True, "run.step_advancing": True, "run.exit_code": None, "run.exit_signal": None}
DONE: dict[str, Any] = {
    "run.alive": False,
    "run.exit_code": 0,
    "run.exit_signal": None,
    "run.exit_record": True,
    "run.done_record": True,
}
KILLS: dict[str, Any] = {"cg.oom_kill_delta": 1, "box.pid1_changed": False}


def judged(facts: dict[str, Any], **more: Any) -> Verdict:
    document = {"scope": ["universal"], "facts": facts, **more}
    return reason(gotchas(), evidence.from_document(document, gotchas()))


def status(verdict: Verdict, name: str) -> str:
    return next((one.status for one in verdict.findings if one.id == name), "")


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("life", [ALIVE, DONE], ids=["alive and advancing", "done at its plan"])
def test_no_evidence_of_any_specimen_ends_a_run_that_nothing_ended(life: dict[str, Any]) -> None:
    wrong = []
    for file in sorted(SPECIMENS.glob("*/hit-*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        document["facts"] = {**(document.get("facts") or {}), **life}
        probes = document.get("probes") or {}
        document["probes"] = {name: told for name, told in probes.items() if not name.startswith(("exit", "process"))}
        case = evidence.from_document(document, gotchas())
        found = reason(gotchas(), case)
        held = {one.id for one in found.findings if one.status in ("confirmed", "conflict")}
        if case.life and held & ENDS:
            wrong.append(f"{file.parent.name}/{file.stem}: {sorted(held & ENDS)}")
    assert wrong == []


def test_a_killed_helper_of_the_same_group_does_not_end_a_run_that_goes_on_or_is_done() -> None:
    for life in (ALIVE, DONE):
        found = judged({**life, **KILLS})
        assert found.is_healthy and found.verdict is None
        assert status(found, "memory-limit-kill") == "ruled-out"


@pytest.mark.parametrize("anew", [{"box.boot_id_changed": True}, {"box.pid1_changed": True}, {"sl.state": "SUSPENDED"}])
def test_the_steps_of_a_log_say_nothing_of_now_once_its_machine_or_job_is_another(anew: dict[str, Any]) -> None:
    log = "".join(f"step {n}/1000 loss 0.5\n" for n in range(1, 9))
    document = {"scope": ["universal"], "probes": {"logs/1.log": {"stdout": log}}}
    assert reason(gotchas(), evidence.from_document(document, gotchas())).is_healthy
    found = reason(gotchas(), evidence.from_document({**document, "facts": anew}, gotchas()))
    assert not found.is_healthy


def test_a_counter_convicts_nobody_until_the_run_itself_has_ended_badly() -> None:
    for unseen in ({}, {"run.alive": False}, {"run.alive": False, "run.exit_code": 0, "run.exit_signal": None}):
        assert status(judged({**KILLS, **unseen}), "memory-limit-kill") == "likely"
    assert status(judged({**KILLS, "run.alive": False, "run.exit_signal": 9}), "memory-limit-kill") == "confirmed"


@pytest.mark.parametrize(
    ("counter", "name"),
    [
        ({"kmsg.xid": [79]}, "gpu-hardware-fault"),
        ({"kmsg.oom_lines": ["oom-kill:constraint=CONSTRAINT_MEMCG"]}, "memory-limit-kill"),
        ({"cg.pids_frac": 0.99}, "no-more-processes"),
    ],
)
def test_a_run_that_ended_by_an_error_of_its_own_program_is_not_ended_by_a_counter(
    counter: dict[str, Any], name: str
) -> None:
    log = 'step 7/9 loss 0.5\nTraceback (most recent call last):\n  File "t.py", line 3, in f\n{}\n'
    ended = {**counter, "run.alive": False, "run.exit_code": 1, "run.exit_signal": None}
    own = judged(ended, probes={"logs/1.log": {"rc": 0, "stdout": log.format("KeyError: 'x'")}})
    assert own.verdict is not None and own.verdict.id == "program-error"
    assert status(own, name) != "confirmed"
    other = judged(ended, probes={"logs/1.log": {"rc": 0, "stdout": log.format("RuntimeError: CUDA error: unknown")}})
    assert status(other, name) == "confirmed"


@pytest.mark.parametrize("life", [ALIVE, DONE], ids=["alive and advancing", "done at its plan"])
def test_what_is_wrong_beside_an_end_keeps_its_own_finding(life: dict[str, Any]) -> None:
    assert status(judged({**life, "run.ckpt_problem": "truncated"}), "checkpoint-damaged") == "confirmed"
    anew = judged({**life, "run.began_anew": True, "run.start_step": 0, "run.restarts": 1})
    assert status(anew, "restarted-from-zero") == "confirmed"
