"""The queue of a box: cells one after the other, whoever dies meanwhile; and what is taken away is never begun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.root import Root
from sojourn.box.system.machine import boot_id
from sojourn.box.system.process import is_alive
from sojourn.wire import atomic
from tests.box import rig as boxes
from tests.box.rig import Rig, found, kill

until = boxes.until
LOG = "printf '%s %s\\n' ${SOJOURN_RUN_ID} ${CUDA_VISIBLE_DEVICES:-none} >>"


class Queue:
    """One sweep's queue on a rig. Every cell writes its name, and its GPU, into one file when it begins."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.log = rig.base.parent / "order"
        self.gates = rig.base.parent / "gates"
        self.gates.mkdir()
        self.root = Root(str(rig.base / "queues" / "sw"))

    def spec(self, name: str, script: str = "") -> dict[str, Any]:
        wait = f"until [ -e '{self.gates}/{name}' ] || [ -e '{self.gates}/all' ]; do sleep 0.02; done"
        words = ["bash", "-eo", "pipefail", "-c", f"{LOG} '{self.log}'; {script or wait}"]
        return {"run": name, "name": name, "argv": words, "identity": f"id {name}", "sweep": "sw"}

    def ask(self, names: str, attempt: int = 1, lanes: Any = ("",), script: str = "", **more: Any) -> dict[str, Any]:
        template = {"outputs": [], "keeper": self.rig.keeper.name, "grace_s": 5.0, "beat_s": 0.1}
        cells = [{"spec": self.spec(name, script), "attempt": attempt, "token": "t"} for name in names.split()]
        more = {"template": template, "cells": cells, "lanes": list(lanes), **more}
        return self.rig.call("enqueue", queue="sw", keeper=self.rig.keeper.name, **more)

    def keep(self) -> subprocess.Popen[bytes]:
        return self.rig.supervise(self.root)

    def take(self, *names: str, why: str = "move") -> tuple[list[str], list[str]]:
        said = self.rig.call("withdraw", queue="sw", runs=list(names) or None, why=why)
        return said["taken"], said["kept"]

    def cell(self, name: str) -> Root:
        return Root(str(self.rig.base / "runs" / name))

    def open(self, name: str = "all") -> None:
        (self.gates / name).touch()

    def order(self) -> list[str]:
        return [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def begun(self, count: int) -> list[str]:
        until(lambda: len(self.order()) >= count)
        return self.order()

    def said(self, kind: str) -> list[dict[str, Any]]:
        path = Path(self.root.path, "said.jsonl")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def pid(self) -> int:
        return int((atomic.read_json(self.root.keeper) or {}).get("pid", 0))


@pytest.fixture
def queue(rig: Rig) -> Any:
    made = Queue(rig)
    yield made
    kill({made.pid()} if made.pid() and is_alive(made.pid(), 0) else set())


def test_cells_run_in_turn_and_the_queue_ends_with_the_last(queue: Queue) -> None:
    assert queue.ask("a b c", script="true")["added"] == 3
    assert queue.keep().wait(60) == 0
    assert queue.order() == ["a", "b", "c"]
    assert [found(queue.cell(n), "ended")[-1]["state"] for n in "abc"] == ["succeeded"] * 3
    assert all(found(queue.cell(n), "sealed") for n in "abc")


def test_asking_again_adds_nothing_and_new_cells_come_at_the_end(queue: Queue) -> None:
    queue.ask("a b")
    keeper = queue.keep()
    queue.begun(1)
    assert queue.ask("a b")["added"] == 0
    assert queue.ask("a b c")["added"] == 1
    queue.open()
    assert keeper.wait(60) == 0
    assert queue.order() == ["a", "b", "c"]


def test_as_many_cells_at_once_as_there_are_slots_each_with_its_gpu(queue: Queue) -> None:
    queue.ask("a b c", lanes=("GPU-1", "0,1"))
    keeper = queue.keep()
    assert sorted(queue.begun(2)) == ["a", "b"]
    assert [line["slot"] for line in queue.said("began")] == [0, 1]
    queue.open("b")
    assert queue.begun(3)[-1] == "c"
    queue.open()
    assert keeper.wait(60) == 0
    had = dict(line.split() for line in queue.log.read_text().splitlines())
    assert had == {"a": "GPU-1", "b": "0,1", "c": "0,1"}


def test_a_killed_queue_finds_its_cells_again_and_begins_none_twice(queue: Queue) -> None:
    queue.ask("a b c", lanes=("", ""))
    keeper = queue.keep()
    queue.begun(2)
    keeper.kill()
    keeper.wait(60)
    queue.open("a")  # one ends while nobody looks
    until(lambda: found(queue.cell("a"), "sealed"))
    keeper = queue.keep()
    assert queue.begun(3)[-1] == "c"
    assert queue.keep().wait(60) == 0  # a second one leaves at once
    assert keeper.poll() is None
    queue.open()
    assert keeper.wait(60) == 0
    assert sorted(queue.order()) == ["a", "b", "c"]
    assert all(len(found(queue.cell(n), "started")) == 1 for n in "abc")


@pytest.mark.campaign
def test_a_cell_whose_keeper_is_killed_gets_another_and_is_not_started_again(queue: Queue) -> None:
    queue.ask("a b")
    keeper = queue.keep()
    queue.begun(1)
    until(lambda: found(queue.cell("a"), "started"))
    os.kill(int((atomic.read_json(queue.cell("a").keeper) or {})["pid"]), signal.SIGKILL)
    until(lambda: found(queue.cell("a"), "adopted"))
    assert queue.order() == ["a"]
    queue.open()
    assert keeper.wait(60) == 0
    assert [found(queue.cell(n), "ended")[-1]["state"] for n in "ab"] == ["succeeded"] * 2


@pytest.mark.campaign
def test_a_cell_that_fails_does_not_hold_up_the_others(queue: Queue) -> None:
    queue.ask("a b", script="[ ${SOJOURN_RUN_ID} = b ]")
    assert queue.keep().wait(60) == 0
    assert [line["state"] for line in queue.said("done")] == ["failed", "succeeded"]


def test_a_cell_that_reads_its_input_does_not_eat_the_queue(queue: Queue) -> None:
    queue.ask("a b", script="cat")
    assert queue.keep().wait(60) == 0
    assert queue.order() == ["a", "b"]


@pytest.mark.campaign
def test_what_was_taken_away_is_never_begun_and_what_was_begun_is_kept(queue: Queue) -> None:
    queue.ask("a b c")
    keeper = queue.keep()
    queue.begun(1)
    assert queue.take("a", "b") == (["b"], ["a"])
    assert queue.take("b") == (["b"], [])  # the same answer again
    queue.open()
    assert keeper.wait(60) == 0
    assert queue.order() == ["a", "c"]
    assert not os.path.exists(queue.cell("b").path)  # nothing of it is left, its secrets neither


def test_a_withdrawal_counts_though_no_keeper_heard_it(queue: Queue) -> None:
    queue.ask("a b", script="true")
    assert queue.take(why="stop") == (["a", "b"], [])
    assert os.path.exists(queue.cell("a").run)  # it may be resumed here
    assert queue.keep().wait(60) == 0
    assert queue.order() == []
    assert queue.ask("b", script="true")["added"] == 1  # wanted here again after all
    assert queue.ask("b", script="true")["added"] == 0
    assert queue.keep().wait(60) == 0
    assert queue.order() == ["b"]


def test_a_queue_that_is_not_there_has_begun_nothing(queue: Queue) -> None:
    assert queue.take("a") == (["a"], [])


def test_a_name_that_another_job_has_is_refused_before_anything_is_made(queue: Queue) -> None:
    queue.rig.place("true", run="b", identity="another")
    said = queue.ask("a b")
    assert not said["ok"] and said["code"] == "name-taken" and said["runs"] == ["b"]
    assert not os.path.exists(queue.cell("a").path) and not os.path.exists(queue.root.path)


@pytest.mark.campaign
def test_the_next_attempt_of_a_cell_is_another_line(queue: Queue) -> None:
    queue.ask("a", script="exit 3")
    assert queue.keep().wait(60) == 0
    assert queue.ask("a", attempt=2, script="exit 3")["added"] == 1
    assert queue.keep().wait(60) == 0
    assert queue.order() == ["a", "a"] and len(found(queue.cell("a"), "ended")) == 2


@pytest.mark.campaign
def test_torn_lines_cost_only_themselves(queue: Queue) -> None:
    queue.ask("a", script="true")
    with open(os.path.join(queue.root.path, "queue.jsonl"), "ab") as f:
        f.write(b'{"kind":"cell","id":"x","ru')
    queue.ask("b", script="true")
    assert queue.keep().wait(60) == 0
    assert queue.order() == ["a", "b"]


def another_boot(root: Root) -> None:
    """Everything that a keeper wrote of its boot is of an earlier one."""
    for name in ("events.jsonl", "keeper.json", "exits/1.begun.json"):
        path = Path(root.path, name)
        if path.exists():
            path.write_text(path.read_text().replace(boot_id(), "0" * 36))


@pytest.mark.campaign
def test_after_a_restart_of_the_machine_the_cut_off_cells_go_on_and_the_hook_goes(queue: Queue, tmp_path: Path) -> None:
    queue.ask("a b c", lanes=("", ""))
    keeper = queue.keep()
    queue.begun(2)
    until(lambda: found(queue.cell("a"), "started") and found(queue.cell("b"), "started"))
    hook = {"hook": "cron", "remove": ["rm", "-f", str(tmp_path / "hook"), queue.root.reboot]}
    (tmp_path / "hook").touch()
    keeper.kill()
    keeper.wait(60)
    atomic.write_json(queue.root.reboot, hook)
    for name in "ab":  # as the restart's queue would have laid it when it began them
        atomic.write_json(queue.cell(name).reboot, {"hook": "queue"})
    queue.rig.close()
    for root in (queue.root, queue.cell("a"), queue.cell("b")):
        another_boot(root)
    queue.open()
    assert queue.keep().wait(60) == 0
    assert sorted(queue.order()) == ["a", "a", "b", "b", "c"]
    ends = {name: [event["state"] for event in found(queue.cell(name), "ended")] for name in "abc"}
    assert ends == {"a": ["lost", "succeeded"], "b": ["lost", "succeeded"], "c": ["succeeded"]}
    assert not (tmp_path / "hook").exists() and not os.path.exists(queue.root.reboot)


@pytest.mark.campaign
def test_a_look_at_a_cell_tells_whether_its_queue_is_kept(queue: Queue) -> None:
    queue.ask("a b")

    def look() -> dict[str, Any]:
        (row,) = queue.rig.call("since", runs={"b": 0})["runs"]
        return row["queue"]

    assert (look()["keeper"], look()["waiting"]) == ("none", 2) and look()["argv"][-1] == queue.root.path
    keeper = queue.keep()
    queue.begun(1)
    assert (look()["keeper"], look()["waiting"], look()["living"]) == ("alive", 1, 1)
    keeper.kill()
    keeper.wait(60)
    assert look()["keeper"] == "gone"
    queue.open()
    assert queue.keep().wait(60) == 0
