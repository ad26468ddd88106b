"""`reap`: real processes that a run left behind; ended by their name alone, proven by number, start time and record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.system import process
from sojourn.cli.show import reap as show
from sojourn.verbs.confirm import Ask, NotConfirmed
from sojourn.verbs.explain import reap
from tests.box.rig import until
from tests.lab import machine_faults
from tests.verbs.conftest import World


@contextmanager
def left_behind(world: World, run: str = "digits", attempt: int = 1, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the environment of an attempt: what is left where a keeper died between an end and its tidying."""
    env = dict(os.environ, SOJOURN_RUN_DIR=str(world.root(run)), SOJOURN_ATTEMPT=str(attempt), SOJOURN_RUN_ID=run)
    child = subprocess.Popen(["sleep", "300"], env=env, start_new_session=True, **more)
    until(lambda: process.command(child.pid).startswith("sleep"))
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def named(child: subprocess.Popen[bytes]) -> str:
    return f"{child.pid}@{process.start_of(child.pid)}"


def typed(*words: str) -> Any:
    left = list(words)
    return lambda ask: left.pop(0) if left else None


def whose(found: reap.Reap) -> Mapping[int, str]:
    return {one.pid: one.kind for one in found.holders}


def test_what_an_ended_run_left_behind_is_named_with_its_proof_and_ended_by_name(world: World) -> None:
    world.ended("true")
    with left_behind(world) as child:
        found = reap.look(world.ctx, "local")
        assert whose(found) == {child.pid: "orphan"} and found.orphans[0].name == named(child)
        assert "attempt 1 of digits ended at" in found.orphans[0].why
        assert found.next == f"sojourn reap local --confirm {named(child)}"
        answer = reap.end(world.ctx, found, confirm=typed(named(child)))
        assert child.wait(30) == -15
    assert (answer.did, [row["name"] for row in answer.ended], answer.kept) == ("ended", [found.orphans[0].name], ())
    assert answer.exit_status == 0 and "SIGTERM" in "\n".join(show.lines(answer, 100))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("word", [None, "y", "yes", "local", "{pid}", "{pid}@1"])
def test_nothing_is_ended_without_the_exact_name(world: World, word: str | None) -> None:
    world.ended("true")
    with left_behind(world) as child:
        found = reap.look(world.ctx, "local")
        with pytest.raises(NotConfirmed):
            reap.end(world.ctx, found, confirm=typed(*([] if word is None else [word.format(pid=child.pid)])))
        assert child.poll() is None


def test_of_several_the_sites_name_is_asked_for_and_each_is_shown_first(world: World) -> None:
    world.ended("true")
    asked: list[Ask] = []
    with left_behind(world) as one, left_behind(world) as other:
        found = reap.look(world.ctx, "local")
        reap.end(world.ctx, found, confirm=lambda ask: asked.append(ask) or ask.name)  # type: ignore[func-returns-value]
        assert (one.wait(30), other.wait(30)) == (-15, -15)
    assert asked[0].name == "local" and all(named_ in "\n".join(asked[0].lines) for named_ in found_names(found))


def found_names(found: reap.Reap) -> list[str]:
    return [one.name for one in found.orphans]


def test_one_of_several_is_ended_and_the_others_are_left_alone(world: World) -> None:
    world.ended("true")
    with left_behind(world) as one, left_behind(world) as other:
        found = reap.look(world.ctx, "local")
        reap.end(world.ctx, found, [named(one)], confirm=typed(named(one)))
        assert one.wait(30) == -15 and other.poll() is None


def test_a_number_with_another_start_time_is_another_process(world: World) -> None:
    world.ended("true")
    with left_behind(world) as child:
        found = reap.look(world.ctx, "local")
        with pytest.raises(reap.NoSuchHolder):
            reap.end(world.ctx, found, [f"{child.pid}@1"], confirm=typed(f"{child.pid}@1"))
        box = world.ctx.box(world.site)
        said = box.answer("reap", victims=[[child.pid, 1]], boot_id=found.facts["boot_id"]).value
        assert said["ended"] == [{"pid": child.pid, "start": 1, "why": "it was already gone"}]
        assert child.poll() is None


def test_a_run_that_lives_is_never_ended_even_where_its_name_is_given(world: World) -> None:
    world.run("exec sleep 300")
    with left_behind(world) as child:
        found = reap.look(world.ctx, "local")
        assert found.orphans == () and child.pid not in whose(found)
        box = world.ctx.box(world.site)
        victims = [[child.pid, process.start_of(child.pid)]]
        said = box.answer("reap", victims=victims, boot_id=found.facts["boot_id"]).value
        assert said["ended"] == [] and "is alive by its records" in said["kept"][0]["why"]
        assert child.poll() is None


def test_what_was_proven_once_is_proven_again_before_it_is_ended(world: World) -> None:
    world.ended("exit 1")
    with left_behind(world, attempt=2) as child:
        (world.root() / "events.jsonl").open("a").write(
            '{"v":1,"seq":901,"at":"2026-11-21T00:00:00.000Z","kind":"attempt","attempt":2}\n'
            '{"v":1,"seq":902,"at":"2026-11-21T00:00:01.000Z","kind":"ended","attempt":2,"state":"failed"}\n'
            '{"v":1,"seq":903,"at":"2026-11-21T00:00:01.000Z","kind":"sealed","attempt":2}\n'
        )
        found = reap.look(world.ctx, "local")
        assert whose(found) == {child.pid: "orphan"}
        lines = (world.root() / "events.jsonl").read_text().splitlines()[:-2]  # as if it had begun just now
        (world.root() / "events.jsonl").write_text("\n".join(lines) + "\n")
        answer = reap.end(world.ctx, found, confirm=typed(named(child)))
        assert (answer.ended, answer.exit_status, len(answer.kept)) == ((), 1, 1)
        assert child.poll() is None


def test_a_run_of_another_base_and_another_users_process_are_not_ours_to_judge(world: World, tmp_path: Path) -> None:
    world.ended("true")
    elsewhere = tmp_path / "elsewhere/runs/digits"
    elsewhere.mkdir(parents=True)
    env = dict(os.environ, SOJOURN_RUN_DIR=str(elsewhere), SOJOURN_ATTEMPT="1")
    child = subprocess.Popen(["sleep", "300"], env=env)
    try:
        assert reap.look(world.ctx, "local").holders == ()
    finally:
        child.kill()
        child.wait()
    if os.getuid() == 0:
        with left_behind(world, user=65534) as theirs:
            assert reap.look(world.ctx, "local").orphans == ()
            assert theirs.poll() is None


def test_another_boot_makes_every_number_meaningless(world: World) -> None:
    world.ended("true")
    with left_behind(world) as child:
        box = world.ctx.box(world.site)
        with pytest.raises(Exception, match="restarted since"):
            box.answer("reap", victims=[[child.pid, process.start_of(child.pid)]], boot_id="another")
        assert child.poll() is None


def test_a_process_that_does_not_hear_is_ended_all_the_same(world: World) -> None:
    world.ended("true")
    env = dict(os.environ, SOJOURN_RUN_DIR=str(world.root()), SOJOURN_ATTEMPT="1")
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline()
    try:
        box = world.ctx.box(world.site)
        boot = box.answer("hello").value["boot_id"]
        victims = [[child.pid, process.start_of(child.pid)]]
        said = box.answer("reap", victims=victims, boot_id=boot, grace_s=0.2, timeout_s=60.0).value
        assert child.wait(30) == -9 and said["ended"][0]["why"] == "SIGKILL"
    finally:
        child.kill()
        child.wait()


WORKER = """
import multiprocessing, os, signal, sys, time
def work():
    time.sleep(300)
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    child = multiprocessing.Process(target=work)
    child.start()
    print(child.pid, flush=True)
    time.sleep(300)
"""
# In a process space of its own, where PID 1 is a shell: what a worker hangs below once its parent is gone.
LOST_PARENT = """
"$1" "$2/worker.py" > "$2/pid" & main=$!
while ! [ -s "$2/pid" ]; do sleep 0.05; done
"$1" -c "$3" "$(cat "$2/pid")"
kill -9 $main; wait $main 2>/dev/null
"$1" -c "$3" "$(cat "$2/pid")"
"""
ASK = """
import sys, time
from sojourn.box.run import orphans
from sojourn.box.system import process
pid = int(sys.argv[1])
for _ in range(600):
    if b"spawn_main" in orphans._read(pid, "cmdline"):
        break
    time.sleep(0.05)
print(orphans.Judge("/nowhere").whose(pid, process.read_stat(pid)).kind)
"""


@pytest.mark.lab
def test_a_worker_whose_parent_is_gone_is_an_orphan_and_one_with_a_parent_is_not(tmp_path: Path) -> None:
    machine_faults.need_root()
    (tmp_path / "worker.py").write_text(WORKER)
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", LOST_PARENT]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [*argv, "x", sys.executable, str(tmp_path), ASK], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.stdout.split() == ["unproven", "orphan"], done.stderr
