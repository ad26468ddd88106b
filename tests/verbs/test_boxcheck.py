"""What `doctor` confirms against a box stops `run` there; and what does not concern a job stops none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.core.values import Finding, Site
from sojourn.verbs.explain.doctor import doctor
from sojourn.verbs.launch import boxcheck
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.box.rig import Rig
from tests.lab import machine_faults
from tests.verbs.conftest import World

pytest_plugins = ["tests.lab.nvml_fixtures"]

LOST = Finding("gpu-hardware-fault", "confirmed", "gone", "blocker")
NONE = Finding("no-gpu-in-container", "confirmed", "none", "blocker")
FULL = Finding("disk-full", "confirmed", "full", "blocker")


def severities(found: tuple[Finding, ...]) -> dict[str, str]:
    return {one.id: one.severity for one in found}


@pytest.mark.usefixtures("driver")
def test_a_lost_card_stops_run_as_doctor_said_and_plan_says_so_too(world: World) -> None:
    said = doctor(world.ctx, "local")
    assert said.exit_status == 11
    blockers = {f.id for f in said.findings if (f.status, f.severity) == ("confirmed", "blocker")}
    assert "gpu-hardware-fault" in blockers
    answer = world.run("true")
    assert (answer.did, answer.exit_status) == ("blocked", 11)
    assert blockers == {f.id for f in answer.findings if (f.status, f.severity) == ("confirmed", "blocker")}
    planned = plan(world.ctx, RunRequest(world.job("true")))
    assert (planned.exit_status, planned.next) == (11, "sojourn doctor local"), "not `run`, which would stop there"
    assert not world.root().exists()


@pytest.mark.usefixtures("driver")
def test_a_job_that_says_it_uses_no_card_runs_on_a_box_that_lost_one(world: World) -> None:
    answer = world.ended("true", envs={"CUDA_VISIBLE_DEVICES": ""})
    assert (answer.did, answer.exit_status) == ("launched", 0)


@pytest.mark.usefixtures("driver")
def test_a_lost_card_stops_a_sweep_as_it_stops_a_run(world: World) -> None:
    keys = {"outputs": [], "sweep": {"matrix": {"lr": [1, 2]}}}
    refused = sweep(world.ctx, SweepRequest(world.job("true", **keys)))
    assert (refused.did, refused.exit_status) == ("blocked", 11)
    assert "gpu-hardware-fault" in {f.id for f in refused.findings if f.status == "confirmed"}
    assert not world.ctx.store.index.runs()
    taken = sweep(world.ctx, SweepRequest(world.job("true", envs={"CUDA_VISIBLE_DEVICES": ""}, **keys)))
    assert taken.did == "queued"


def test_what_is_wrong_with_cards_concerns_whom_it_concerns() -> None:
    found = (LOST, NONE, FULL)
    assert severities(boxcheck.for_job(found, {}, wants_cards=True)) == dict.fromkeys(severities(found), "blocker")
    usual = severities(boxcheck.for_job(found, {}, wants_cards=False))
    assert usual == {"gpu-hardware-fault": "blocker", "no-gpu-in-container": "note", "disk-full": "blocker"}
    assert severities(boxcheck.without_cards(found))["gpu-hardware-fault"] == "note"


def test_kills_and_crashes_of_somebody_elses_processes_say_nothing_about_a_box() -> None:
    lines = (
        "[  100.000001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a,task=python,pid=7,uid=0\n"
        "[  100.000002] Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB\n"
        "[  100.000003] python[8]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6[7f+1]\n"
        "[  100.000004] cgroup: fork rejected by pids controller in /a\n"
    )
    looked = {"launch": {"alone": True}, "probes": {"dmesg": {"rc": 0, "stdout": lines}}, "facts": {"box.alone": True}}
    assert boxcheck.check_box(Site("local"), looked) == ()


def test_of_two_that_say_the_same_the_one_with_the_cause_is_told_blockers_first() -> None:
    own = [FULL, Finding("orphan-holds-vram", "confirmed", "held", "warning")]
    others = [
        Finding("clock-offset", "confirmed", "late", "note"),
        Finding("disk-too-small", "confirmed", "", "blocker"),
    ]
    assert [one.id for one in boxcheck.joined(own, others)] == ["disk-full", "orphan-holds-vram", "clock-offset"]


@pytest.mark.lab
def test_a_disk_that_went_read_only_and_a_full_one_are_blockers_of_their_own(tmp_path: Path) -> None:
    def found(box: Rig) -> list[str]:
        answer = box.call("look", probes=list(boxcheck.QUICK))
        return [f.id for f in boxcheck.check_box(Site("local"), answer["evidence"]) if f.severity == "blocker"]

    with machine_faults.disk(tmp_path, 48) as point:
        box = Rig(point)
        assert found(box) == []
        for piece in (1 << 20, 1 << 10):
            with open(point / "fill", "ab", buffering=0) as f, pytest.raises(OSError, match="No space"):
                while True:
                    f.write(b"\0" * piece)
        assert found(box) == ["disk-full"]
        (point / "fill").unlink()
        machine_faults.abort(point)
        assert "file-system-failing" in found(box)
