"""Ending a payload on purpose: with grace, then without; and what may come after."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.root import Root
from sojourn.wire import atomic
from tests.box.rig import PATIENCE_S, Rig, all_events, found, gone, heard, kill, log, until

SLEEP = "echo on; sleep 600"
# A training process as we recommend it: it saves and asks to be run again. The line after it must never be reached.
SAVES = "bash -c 'trap \"echo saved; exit 75\" TERM; echo on; while true; do sleep 0.05; done'; echo not reached"
DEAF = "trap '' TERM; echo on; while true; do sleep 0.05; done"


def running(rig: Rig, script: str, **spec: Any) -> Root:
    root = rig.place(script, **spec)
    rig.supervise(root)
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    heard(root, "beat")
    return root


def test_a_stopped_run_is_cancelled_and_nothing_starts_by_itself(rig: Rig) -> None:
    root = running(rig, SLEEP)
    answer = rig.call("stop", run="r", attempt=1, grace_s=60, why="stop")
    assert answer["keeper"] == "alive"
    end = heard(root, "ended")
    assert (end["state"], end["why"]) == ("cancelled", "stop")
    assert [event["signal"] for event in found(root, "signal")] == ["TERM"]
    heard(root, "sealed")
    assert rig.supervise(root).wait(60) == 0
    assert len(found(root, "attempt")) == 1


def test_the_stop_is_obeyed_at_once_not_at_the_next_beat(rig: Rig) -> None:
    root = running(rig, SLEEP, beat_s=3600)
    rig.call("stop", run="r")
    assert heard(root, "ended")["state"] == "cancelled"  # which is not waited for as long as a beat takes


def test_a_script_that_is_stopped_waits_for_its_training_process_and_passes_its_exit_status_on(rig: Rig) -> None:
    root = running(rig, SAVES)
    rig.call("stop", run="r")
    end = heard(root, "ended")
    assert (end["state"], end["rc"]) == ("cancelled", 75)
    # bash says "Terminated" of its sleep, if the signal found one; between two of them it says nothing.
    assert [word for word in log(root).split() if word != "Terminated"] == ["on", "saved"]


def test_a_payload_that_ignores_the_signal_is_killed_after_its_grace(rig: Rig) -> None:
    root = running(rig, DEAF, grace_s=3600)
    began = time.monotonic()
    rig.call("stop", run="r", grace_s=0.5)
    end = heard(root, "ended")
    assert time.monotonic() - began >= 0.5  # and not after the job's own grace, for which nobody would wait
    assert (end["state"], end["signal"]) == ("cancelled", 9)
    assert [event["signal"] for event in found(root, "signal")] == ["TERM", "KILL"]


def test_asking_again_with_less_grace_ends_it_sooner(rig: Rig) -> None:
    root = running(rig, DEAF)
    rig.call("stop", run="r", grace_s=600)
    heard(root, "signal")
    rig.call("stop", run="r", grace_s=0)
    assert heard(root, "ended")["state"] == "cancelled"


def test_children_in_other_groups_do_not_outlive_the_kill(rig: Rig) -> None:
    deaf = 'trap "" TERM; echo on; echo $$ >> pids; while true; do sleep 0.05; done'
    root = running(rig, "setsid bash -c '%s' & setsid -f bash -c '%s'; %s" % (deaf, deaf, DEAF))
    until(lambda: len(Path(root.attempt(1), "pids").read_text().split()) == 2)
    rig.call("stop", run="r", grace_s=0.2)
    heard(root, "sealed")
    assert all(gone(int(pid)) for pid in Path(root.attempt(1), "pids").read_text().split())


def test_after_a_stop_a_resume_starts_the_next_attempt(rig: Rig) -> None:
    root = running(rig, SLEEP)
    rig.call("stop", run="r")
    heard(root, "sealed")
    assert rig.call("want", run="r", attempt=2, by="resume")["last"] == 1
    rig.supervise(root)
    started = heard(root, "started", 2)
    assert started["attempt"] == 2
    assert os.path.isdir(root.attempt(1)) and os.path.isdir(root.attempt(2))


def test_a_resume_while_the_old_attempt_is_being_stopped_is_not_lost(rig: Rig) -> None:
    root = running(rig, DEAF)
    rig.call("stop", run="r", attempt=1, grace_s=600)
    rig.call("want", run="r", attempt=2, by="resume")
    assert not found(root, "ended")
    kill({found(root, "started")[0]["pid"]})
    assert heard(root, "started", 2)["attempt"] == 2


def test_a_run_stopped_before_its_keeper_came_never_starts(rig: Rig) -> None:
    root = rig.place('touch "$SOJOURN_RUN_DIR/ran"')
    rig.call("stop", run="r")
    end = rig.finish(root)
    assert (end["state"], end["why"]) == ("cancelled", "stop")
    assert not found(root, "started") and not os.path.exists(os.path.join(root.path, "ran"))


def test_a_stop_during_setup_ends_the_setup(rig: Rig) -> None:
    root = rig.place("true", setup="echo on; sleep 600")
    rig.supervise(root)
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    rig.call("stop", run="r")
    assert heard(root, "ended")["state"] == "cancelled"
    assert not found(root, "started")


def test_a_payload_that_had_ended_by_itself_is_not_cancelled(rig: Rig) -> None:
    root = rig.place("true")
    rig.finish(root)
    rig.call("stop", run="r")
    assert rig.supervise(root).wait(60) == 0
    assert [end["state"] for end in found(root, "ended")] == ["succeeded"]


@pytest.mark.parametrize("word", ["max_duration", "budget"])
def test_a_spent_limit_ends_the_payload_with_grace(rig: Rig, word: str) -> None:
    root = running(rig, SAVES)
    # Told while it runs: before its trap it would die of the signal, and how long that takes nobody knows.
    atomic.write_json(root.want, dict(atomic.read_json(root.want), **{word + "_s": 0.6}))
    end = heard(root, "ended")
    assert (end["state"], end["why"], end["rc"]) == ("timeout", word, 75)
    assert end["seconds"] >= 0.5
    assert json.loads(Path(root.stop).read_text())["why"] == word


def test_a_budget_counts_all_attempts_and_a_duration_each(rig: Rig) -> None:
    root = rig.place("test $SOJOURN_ATTEMPT = 3 || exit 75; sleep 600", budget_s=100, max_duration_s=5000)
    for attempt in (1, 2):
        rig.call("want", run="r", attempt=attempt, by="resume")
        assert rig.finish(root)["state"] == "preempted"
    path = Path(root.events)  # as if each had run for 49.9 s
    path.write_text(re.sub(r'("kind":"ended".*"seconds":)[0-9.]+', r"\g<1>49.9", path.read_text()))
    rig.call("want", run="r", attempt=3, by="resume")
    end = rig.finish(root)
    assert (end["state"], end["why"]) == ("timeout", "budget")


@pytest.mark.campaign
def test_who_asks_for_the_next_attempt_may_bring_another_limit(rig: Rig) -> None:
    root = rig.place("sleep 0.8", max_duration_s=0.2)
    assert rig.finish(root)["state"] == "timeout"
    rig.call("want", run="r", attempt=2, by="run", max_duration_s=60)
    assert rig.finish(root)["state"] == "succeeded"


@pytest.mark.campaign
def test_an_adopter_goes_on_with_what_its_dead_predecessor_began_to_end(rig: Rig) -> None:
    root = rig.place(DEAF, grace_s=0.5, max_duration_s=0.3)
    rig.supervise(root)
    heard(root, "signal")
    keeper = rig.started[0]
    kill({keeper.pid})
    keeper.wait(60)
    rig.supervise(root)
    end = heard(root, "ended")
    assert (end["state"], end["why"]) == ("timeout", "max_duration")


def test_a_keeper_told_to_end_gives_its_payload_grace_and_seals(rig: Rig) -> None:
    root = running(rig, SAVES, outputs=["*.txt"], retry={"attempts": 5, "on": ["preempted"]})
    keeper = rig.started[0]
    keeper.send_signal(signal.SIGTERM)
    assert keeper.wait(60) == 0
    # bash says "Terminated" of its sleep, if the signal found one; between two of them it says nothing.
    assert [word for word in log(root).split() if word != "Terminated"] == ["on", "saved"]
    end = found(root, "ended")[0]
    assert (end["state"], end["rc"], end["why"]) == ("preempted", 75, "shutdown")
    assert all_events(root)[-1]["kind"] == "sealed"
    assert len(found(root, "attempt")) == 1  # the machine goes down: nothing is started into that


def test_a_payload_without_a_handler_is_preempted_when_the_machine_goes_down(rig: Rig) -> None:
    root = running(rig, SLEEP)
    rig.started[0].send_signal(signal.SIGTERM)
    assert heard(root, "ended")["state"] == "preempted"


def test_a_hangup_or_an_interrupt_s_forerunner_does_not_end_the_keeper(rig: Rig) -> None:
    root = running(rig, SLEEP)
    rig.started[0].send_signal(signal.SIGHUP)
    rig.started[0].send_signal(signal.SIGUSR1)
    heard(root, "beat", len(found(root, "beat")) + 3)
    assert rig.started[0].poll() is None and not found(root, "signal")


def test_preempted_attempts_are_repeated_as_often_as_the_job_says(rig: Rig) -> None:
    root = rig.place('echo "attempt $SOJOURN_ATTEMPT"; exit 75', retry={"attempts": 3, "on": ["preempted"]})
    rig.finish(root)
    assert [end["attempt"] for end in found(root, "ended")] == [1, 2, 3]
    assert len(found(root, "sealed")) == 1
    assert log(root, 3) == "attempt 3\n"


def test_the_user_s_own_error_is_never_repeated(rig: Rig) -> None:
    root = rig.place("exit 1", retry={"attempts": 3, "on": ["preempted", "node-failure", "network"]})
    rig.finish(root)
    assert len(found(root, "ended")) == 1


def test_success_is_never_followed_by_another_attempt(rig: Rig) -> None:
    root = rig.place("true")
    rig.finish(root)
    rig.call("want", run="r", attempt=2, by="resume")
    assert rig.supervise(root).wait(60) == 0
    assert len(found(root, "attempt")) == 1


def test_what_the_payload_left_behind_ends_with_it(rig: Rig) -> None:
    leave = "setsid -f bash -c 'echo $$ > \"$SOJOURN_RUN_DIR/daemon\"; sleep 600'"
    root = rig.place(leave + '; until test -s "$SOJOURN_RUN_DIR/daemon"; do sleep 0.05; done')
    end = rig.finish(root)
    assert end["state"] == "succeeded"
    assert gone(int(Path(root.path, "daemon").read_text()))
    left = found(root, "signal")[0]
    assert "left behind" in left["why"] and left["seq"] > end["seq"]


def test_a_keeper_whose_root_became_another_run_s_harms_nothing_of_that(rig: Rig) -> None:
    root = rig.place("sleep 600")
    old = rig.supervise(root)
    payload = heard(root, "started")["pid"]
    os.rename(root.path, rig.base.parent / "deleted")  # a keeper that writes makes rmtree fail
    root = rig.place('until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.1; done')
    new = rig.supervise(root)
    heard(root, "started")
    assert old.wait(PATIENCE_S) == 0 and gone(payload)
    assert not found(root, "ended") and not os.path.exists(root.manifest)
    Path(root.path, "go").touch()
    assert new.wait(PATIENCE_S) == 0 and found(root, "ended")[-1]["state"] == "succeeded"
