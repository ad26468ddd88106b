"""Runs that a scheduler gives one machine after the other: who goes on, who ends unheard, and what is put down."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict

import pytest

from sojourn.box.run.root import Root
from tests.box.rig import PATIENCE_S, Rig, all_events, found, gone, heard, keeper_log, log, until

pytest_plugins = ["tests.lab.nvml_fixtures"]

COUNT = "n=0; while :; do n=$((n + 1)); echo $SOJOURN_ATTEMPT-$n; sleep 0.05; done"


def seated(rig: Rig, root: Root, seat: str, **more: str) -> "subprocess.Popen[bytes]":
    """A keeper with a seat."""
    before, rig.env = rig.env, dict(rig.env, SOJOURN_SEAT=seat, **more)
    try:
        return rig.supervise(root)
    finally:
        rig.env = before


def test_the_attempt_says_its_seat_and_the_payload_does_not_inherit_it(rig: Rig) -> None:
    root = rig.place("env")
    assert seated(rig, root, "7:0").wait(PATIENCE_S) == 0
    assert found(root, "attempt")[0]["seat"] == "7:0" and "SOJOURN_SEAT" not in log(root)
    assert json.loads(Path(root.keeper).read_text())["seat"] == "7:0"


def test_what_starts_on_all_machines_of_a_seat_stands_before_the_payload(rig: Rig) -> None:
    root = rig.place('echo "here on $RANK" "of $0"')
    step = """sh -c 'RANK=0 "$@"; RANK="1 and on" "$@"' step"""
    assert seated(rig, root, "7:0", SOJOURN_SEAT_STEP=step).wait(PATIENCE_S) == 0
    assert log(root) == "here on 0 of bash\nhere on 1 and on of bash\n"


def test_a_machine_that_is_not_as_the_job_needs_is_looked_at_and_nothing_starts_on_it(
    rig: Rig,
    nvml: Dict[str, str],
) -> None:
    need = {"cpus": "4096", "memory": "900000", "accelerators": ["A100:2"]}
    root = rig.place("echo began", resources=need)
    assert seated(rig, root, "7:0", **nvml).wait(PATIENCE_S) == 0
    end = found(root, "ended")[0]
    assert (end["state"], end["why"], end["by"]) == ("failed", "preflight", "keeper")
    for words in ("needs 4096 CPUs", "needs 900000 GiB of memory", "GPU 1 is lost here (NVML error 15)"):
        assert words in end["detail"], end
    assert not found(root, "prepared") and found(root, "checked")[0]["writes"] == "ok"
    assert json.loads(Path(root.evidence(1)).read_text())["probes"]


def test_every_machine_of_a_seat_is_looked_at_and_one_that_is_not_as_needed_is_named(rig: Rig) -> None:
    root = rig.place("echo began")
    told = Path(root.path, "told")
    told.write_text("a module says hello\n" + json.dumps({"host": "n2", "against": ["it has no disk"]}) + "\n")
    step = """sh -c '"$@"; case $* in *forecheck*) cat "$SOJOURN_RUN_DIR/told" ;; esac' step"""
    assert seated(rig, root, "7:0", SOJOURN_SEAT_STEP=step).wait(PATIENCE_S) == 0
    assert found(root, "ended")[0]["detail"] == "n2: it has no disk" and not found(root, "started")
    assert [row["host"] for row in found(root, "checked")[0]["nodes"]] == ["n2"]


def test_a_machine_of_a_seat_that_does_not_see_the_run_is_told_and_one_that_is_silent_is_not_held_against_it(
    rig: Rig,
) -> None:
    root, silent = rig.place("echo began"), rig.place("echo began", run="silent")
    step = 'sh -c \'[ "$5" != forecheck ] || { echo sojourn: node 1 does not see it >&2; exit %d; }; "$@"\' step'
    assert seated(rig, root, "7:0", SOJOURN_SEAT_STEP=step % 73).wait(PATIENCE_S) == 0
    assert "node 1 does not see it" in found(root, "ended")[0]["detail"]
    assert seated(rig, silent, "8:0", SOJOURN_SEAT_STEP=step % 1).wait(PATIENCE_S) == 0
    assert log(silent) == "began\n" and found(silent, "checked")[0]["nodes"] == []


def test_only_the_cards_that_are_the_runs_own_are_looked_at(rig: Rig, nvml: Dict[str, str]) -> None:
    one = {"resources": {"cpus": "1+", "memory": "0.01", "accelerators": ["A100:1"]}}
    root = rig.place("echo began", **one)
    assert seated(rig, root, "7:0", CUDA_VISIBLE_DEVICES="0", **nvml).wait(PATIENCE_S) == 0
    assert log(root) == "began\n" and found(root, "checked")[0]["against"] == []
    assert [card["name"] for card in found(root, "checked")[0]["cards"]["gpus"][:1]] == ["NVIDIA A100-SXM4-80GB"]
    more = rig.place("echo began", run="more", resources={"accelerators": ["A100:2"]})
    assert seated(rig, more, "8:0", CUDA_VISIBLE_DEVICES="0", **nvml).wait(PATIENCE_S) == 0
    assert "the job needs 2 GPUs, but only 1 are visible here" in found(more, "ended")[0]["detail"]


def test_without_a_scheduler_the_machine_was_judged_before_and_is_not_again(rig: Rig) -> None:
    root = rig.place("echo began", resources={"cpus": "4096"})
    assert rig.supervise(root).wait(PATIENCE_S) == 0
    assert log(root) == "began\n" and not found(root, "checked")


@pytest.mark.campaign
def test_the_next_seat_of_a_job_goes_on_as_the_next_attempt_and_what_lived_on_is_ended(rig: Rig) -> None:
    root = rig.place(COUNT)
    first = seated(rig, root, "7:0")
    heard(root, "beat")
    seated(rig, root, "7:1")
    assert heard(root, "started", 2)["attempt"] == 2
    assert first.wait(PATIENCE_S) == 0
    assert gone(found(root, "started")[0]["pid"])
    assert found(root, "attempt")[1]["seat"] == "7:1"
    assert found(root, "ended")[0]["attempt"] == 1
    until(lambda: os.path.exists(root.log(2)) and "2-3" in log(root, 2))


@pytest.mark.campaign
@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="namespaces need root")
def test_a_keeper_on_a_machine_that_we_cannot_see_sees_itself_that_its_time_is_over(rig: Rig) -> None:
    root = rig.place(COUNT)
    there = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
    argv = [rig.python, "-I", "-S", str(rig.keeper), "supervise", "--root", root.path]
    script = ['hostname n9; "$@" & wait', "node", *argv]
    with open(os.path.join(root.logs, "keeper.log"), "ab") as said:
        env = dict(rig.env, SOJOURN_SEAT="7:0")
        first = subprocess.Popen([*there, *script], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env)
    try:
        heard(root, "beat")
        seated(rig, root, "7:1")
        heard(root, "started", 2)
        assert first.wait(PATIENCE_S) == 0
        assert "attempt 1 was taken over by a later one" in keeper_log(root)
        end = found(root, "ended")[0]
        assert end["state"] == "lost" and end["detail"].startswith("it was given another machine: it ran on n9, this")
        numbers = [event["seq"] for event in all_events(root)]
        second = next(event for event in all_events(root) if event["attempt"] == 2)
        assert second["seq"] > max(event["seq"] for event in all_events(root) if event["kind"] == "beat" and
                                   event["attempt"] == 1)  # fmt: skip
        assert len(numbers) == len(set(numbers))
    finally:
        first.kill()
        first.wait(PATIENCE_S)


@pytest.mark.campaign
def test_another_job_records_the_end_and_begins_nothing_that_nobody_asked_for(rig: Rig) -> None:
    root = rig.place("trap 'exit 75' TERM; echo on; while :; do sleep 0.05; done")
    first = seated(rig, root, "7:0")
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    heard(root, "beat")
    first.send_signal(signal.SIGTERM)
    first.wait(PATIENCE_S)
    assert found(root, "ended")[0]["state"] == "preempted"
    assert seated(rig, root, "8:0").wait(PATIENCE_S) == 0
    assert len(found(root, "attempt")) == 1
    seated(rig, root, "7:1")
    assert heard(root, "started", 2)["attempt"] == 2


def test_a_run_that_was_stopped_does_not_go_on_in_the_next_seat(rig: Rig) -> None:
    root = rig.place(COUNT)
    first = seated(rig, root, "7:0")
    heard(root, "beat")
    rig.call("stop", run=root.id, grace_s=0)
    first.wait(PATIENCE_S)
    assert seated(rig, root, "7:1").wait(PATIENCE_S) == 0
    assert len(found(root, "attempt")) == 1 and found(root, "ended")[0]["state"] == "cancelled"


@pytest.mark.campaign
@pytest.mark.parametrize(("script", "status"), [("exit 75", 75), ("exit 0", 0), ("kill -KILL $$", 0)])
def test_told_that_its_seat_ends_the_keeper_says_whether_another_one_would_help(
    rig: Rig, script: str, status: int
) -> None:
    root = rig.place("trap '%s' TERM; echo on; while :; do sleep 0.05; done" % script, signal="TERM@600")
    keeper = seated(rig, root, "7:0", SOJOURN_SEAT_LEAD_S="600", SOJOURN_SEAT_GRACE_S="1")
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    heard(root, "beat")
    keeper.send_signal(signal.SIGINT)
    assert keeper.wait(PATIENCE_S) == status
    wanted = {"exit 75": "preempted", "exit 0": "succeeded"}.get(script, "timeout")
    assert found(root, "ended")[0]["state"] == wanted and found(root, "signal")[0]["why"] == "walltime"


@pytest.mark.campaign
def test_the_time_to_save_is_the_seats_and_gets_short_when_it_is_told_again(rig: Rig) -> None:
    root = rig.place(
        "trap 'echo saving' TERM; echo on; while :; do sleep 0.05 || :; done", grace_s=0.0, signal="TERM@600"
    )
    keeper = seated(rig, root, "7:0", SOJOURN_SEAT_LEAD_S="600", SOJOURN_SEAT_GRACE_S="1")
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    heard(root, "beat")
    keeper.send_signal(signal.SIGINT)
    until(lambda: "saving" in log(root))
    assert keeper.poll() is None
    keeper.send_signal(signal.SIGTERM)
    keeper.wait(PATIENCE_S)
    end = found(root, "ended")[0]
    assert end["state"] == "timeout" and (end["signal"], end["rc"]) in ((9, None), (None, 137))


def test_what_cannot_save_has_its_whole_time_and_what_says_so_later_is_told_then(rig: Rig) -> None:
    script = "trap 'exit 75' TERM; echo on; until [ -e \"$SOJOURN_RUN_DIR/go\" ]; do sleep 0.05; done"
    root, late = rig.place(script), rig.place(script, run="late")
    keepers = [seated(rig, one, "7:0", SOJOURN_SEAT_LEAD_S="20") for one in (root, late)]
    for one, keeper in zip((root, late), keepers):
        until(lambda one=one: os.path.exists(one.log(1)) and "on" in log(one))
        heard(one, "beat")
        keeper.send_signal(signal.SIGINT)
    open(late.hears(1), "w").close()
    assert keepers[1].wait(PATIENCE_S) == 75 and found(late, "signal")[0]["why"] == "walltime"
    open(os.path.join(root.path, "go"), "w").close()
    assert keepers[0].wait(PATIENCE_S) == 0
    assert found(root, "ended")[0]["state"] == "succeeded" and not found(root, "signal")


def test_a_quick_save_is_asked_for_late_and_by_the_signal_of_the_job_file(rig: Rig) -> None:
    root = rig.place("trap 'echo heard; exit 75' USR1; echo on; while :; do sleep 0.05; done", signal="USR1@2")
    os.makedirs(root.exits, exist_ok=True)
    keeper = seated(rig, root, "7:0", SOJOURN_SEAT_LEAD_S="600")
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    with open(root.seat_left("7:0"), "w") as f:
        f.write("4")
    began_s = time.monotonic()
    keeper.send_signal(signal.SIGINT)
    assert keeper.wait(PATIENCE_S) == 75 and "heard" in log(root) and time.monotonic() - began_s >= 2
    assert found(root, "signal")[0]["signal"] == "USR1"


def judged(rig: Rig, root: Root, **fields: Any) -> str:
    asked = {"run": root.id, "attempt": 1, "native": "7", "by": "sbatch", "state": "timeout", "detail": "too long"}
    answer = rig.call("judge", **{**asked, **fields})
    assert answer["ok"], answer
    noted: str = answer["noted"]
    return noted


@pytest.mark.campaign
def test_what_the_scheduler_says_is_the_end_of_an_attempt_that_left_none(rig: Rig) -> None:
    root = rig.place("echo made > out.txt; sleep 600", outputs=["out.txt"])
    keeper = seated(rig, root, "7:0")
    heard(root, "beat")
    until(lambda: os.path.exists(os.path.join(root.attempt(1), "out.txt")))
    shim = found(root, "started")[0]["shim"]["pid"]
    pids = (keeper.pid, shim, found(root, "started")[0]["pid"])
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(map(gone, pids)))
    assert judged(rig, root, native="8") == "", "another job's word is not about this attempt"
    assert judged(rig, root) == "ended"
    end = found(root, "ended")[0]
    assert (end["state"], end["by"], end["detail"]) == ("timeout", "sbatch", "too long")
    assert heard(root, "sealed")["files"] == 1
    assert judged(rig, root) == ""


@pytest.mark.campaign
def test_an_end_on_record_stays_and_the_scheduler_s_word_stands_beside_it(rig: Rig) -> None:
    root = rig.place("exit 3")
    seated(rig, root, "7:0").wait(PATIENCE_S)
    assert judged(rig, root) == "judged"
    assert len(found(root, "ended")) == 1 and found(root, "judged")[0]["state"] == "timeout"


def test_an_attempt_that_never_began_is_claimed_so_that_no_late_keeper_begins_it(rig: Rig) -> None:
    root = rig.place(COUNT)
    assert judged(rig, root, state="cancelled", detail="scancel") == "ended"
    assert heard(root, "sealed")["attempt"] == 1
    assert seated(rig, root, "7:0").wait(PATIENCE_S) == 0
    assert not found(root, "started") and found(root, "ended")[0]["state"] == "cancelled"
