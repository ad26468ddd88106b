"""One run, undisturbed: what is recorded, and what the payload finds."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from sojourn.box.run.root import Root
from sojourn.box.supervise import shim
from tests.box.rig import Rig, all_events, found, heard, log, until

# A shim whose payload comes late to a session of its own.
LATE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from sojourn.box.supervise import shim
me, setsid = os.getpid(), os.setsid
os.setsid = lambda: (os.getpid() == me or time.sleep(1), setsid())
shim.main(sys.argv[2:])
"""


def test_a_run_is_recorded_from_its_claim_to_its_seal(rig: Rig) -> None:
    root = rig.place("echo made > out.txt", outputs=["out.txt", "never.bin"])
    end = rig.finish(root)
    kinds = [event["kind"] for event in all_events(root)]
    assert kinds[:4] == ["attempt", "prepared", "started", "beat"]
    assert [kind for kind in kinds[4:] if kind != "beat"] == ["ended", "sealed"]
    assert (end["state"], end["rc"], end["signal"], end["by"]) == ("succeeded", 0, None, "shim")
    assert [event["seq"] for event in all_events(root)] == list(range(1, len(kinds) + 1))
    sealed = found(root, "sealed")[0]
    assert sealed["files"] == 1 and sealed["bytes"] == 5 and sealed["missing"] == ["never.bin"]
    assert json.loads(Path(root.manifest).read_text())["digest"] == sealed["manifest"]


def test_the_exit_status_is_the_payloads_own(rig: Rig) -> None:
    for rc, state in ((3, "failed"), (75, "preempted"), (139, "failed"), (143, "killed")):
        end = rig.finish(rig.place("exit %d" % rc, run="rc-%d" % rc))
        assert (end["state"], end["rc"]) == (state, rc)


def test_the_first_beat_comes_right_after_the_start(rig: Rig) -> None:
    root = rig.place("sleep 300", beat_s=3600)
    rig.supervise(root)
    beat = heard(root, "beat")  # which is not waited for as long as a beat takes
    assert beat["threads"] >= 1 and beat["rss_bytes"] >= 0 and beat["disk"]


def test_a_beat_counts_the_memory_that_the_payload_holds(rig: Rig) -> None:
    # Much of it: Linux counts a small process's pages per CPU and late, so that it may show none at all.
    held = "import time; held = bytearray(50_000_000); time.sleep(300)"
    root = rig.place("exec %s -c '%s'" % (sys.executable, held), beat_s=1)
    rig.supervise(root)
    assert until(lambda: [beat for beat in found(root, "beat") if beat["rss_bytes"] > 50_000_000])


def test_the_payload_finds_its_variables_and_a_private_copy_of_the_code(rig: Rig) -> None:
    code = rig.snapshot({"run.sh": b"#!/bin/sh\npwd; env\n", "lib/data.txt": b"data"}, executable=("run.sh",))
    root = rig.place("echo changed >> lib/data.txt; ./run.sh", code=code, envs={"WIDTH": "7 of 9"}, train="train-x.zip")
    assert rig.finish(root)["state"] == "succeeded", log(root)
    said = log(root)
    base, path = str(rig.base), root.path
    for line in (
        path + "/attempts/1",
        "WIDTH=7 of 9",
        "SOJOURN_RUN_ID=r",
        "SOJOURN_ATTEMPT=1",
        "SOJOURN_TOKEN=1",
        "SOJOURN_RUN_DIR=" + path,
        "SOJOURN_CHECKPOINT_DIR=" + path + "/checkpoints",
        "SOJOURN_PROGRESS=" + path + "/progress/1.json",
        "SOJOURN_RAN_S=0.0",
        "SOJOURN_INTERRUPTIONS=0",
        "SOJOURN_NODE_RANK=0",
        "SOJOURN_NODE_IPS=127.0.0.1",
        "PYTHONPATH=" + base + "/train/train-x.zip",
        "PYTHONUNBUFFERED=1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",
    ):
        assert line + "\n" in said
    assert Path(root.attempt(1), "lib/data.txt").read_text() == "datachanged\n"
    assert Path(str(rig.base), "snapshots", code, "tree/lib/data.txt").read_text() == "data"


def test_the_payload_is_told_how_long_the_run_ran_and_how_often_it_was_cut_off(rig: Rig) -> None:
    root = rig.place("echo cut $SOJOURN_INTERRUPTIONS ran $SOJOURN_RAN_S; exit 75")
    assert rig.finish(root)["state"] == "preempted"
    rig.call("want", run="r", attempt=2, by="resume")
    rig.supervise(root)
    heard(root, "ended", 2)
    said = Path(root.log(2)).read_text().split()
    assert said[:3] == ["cut", "1", "ran"] and float(said[3]) >= 0


def test_the_payload_has_a_session_of_its_own_no_input_and_default_signals(rig: Rig) -> None:
    script = (
        "cat; echo pid $$ session $(ps -o sid= -p $$) group $(ps -o pgid= -p $$); grep -h ^SigIgn /proc/self/status"
    )
    root = rig.place(script)
    assert rig.finish(root)["state"] == "succeeded"
    words = log(root).split()
    assert words[1] == words[3] == words[5]
    # But for 32 and 33, which belong to the C library: where the test's own parent ignores them, nobody can change it.
    assert int(words[7], 16) & ~(3 << 31) == 0


def test_the_log_is_written_by_the_payload_itself(rig: Rig) -> None:
    root = rig.place("echo out; echo err >&2; readlink /proc/$$/fd/1; sleep 300")
    rig.supervise(root)
    heard(root, "beat", 2)
    until(lambda: root.log(1) in log(root))
    assert log(root).startswith("out\nerr\n")


def test_a_program_that_is_not_there_fails_with_its_reason_in_the_log(rig: Rig) -> None:
    root = rig.place(argv=["no-such-program-anywhere"])
    end = rig.finish(root)
    assert (end["state"], end["rc"]) == ("failed", 127)
    assert "cannot start ['no-such-program-anywhere']" in log(root)


def test_the_site_s_init_line_comes_first_and_its_failure_ends_the_run(rig: Rig) -> None:
    good = rig.place('test "$MODULE" = loaded', run="good", init="export MODULE=loaded")
    assert rig.finish(good)["state"] == "succeeded"
    bad = rig.place("echo must not be seen", run="bad", init="false")
    assert rig.finish(bad)["state"] == "failed"
    assert "must not" not in log(bad)


def test_a_second_start_does_nothing_when_the_run_is_over(rig: Rig) -> None:
    root = rig.place("echo once")
    rig.finish(root)
    before = all_events(root)
    assert rig.supervise(root).wait(60) == 0
    assert all_events(root) == before


def test_nothing_of_a_finished_run_is_left_but_its_root(rig: Rig) -> None:
    root = rig.place('echo x > "$SOJOURN_SCRATCH_DIR/x"; echo "$SOJOURN_SCRATCH_DIR" > where.txt')
    rig.finish(root)
    where = Path(root.attempt(1), "where.txt").read_text().strip()
    assert os.path.isabs(where) and not where.startswith(root.path) and not os.path.exists(where)
    assert sorted(os.listdir(root.exits)) == ["1.begun.json", "1.json"]


def test_scratch_stays_when_the_run_did_not_succeed(rig: Rig) -> None:
    root = rig.place('echo x > "$SOJOURN_SCRATCH_DIR/x"; echo "$SOJOURN_SCRATCH_DIR" > where.txt; exit 75')
    rig.finish(root)
    where = Path(Path(root.attempt(1), "where.txt").read_text().strip())
    assert (where / "x").exists()


def test_a_signal_reaches_the_payload_from_the_moment_it_is_called_begun(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    root.make_folders()
    report, theirs = os.pipe()
    src = str(Path(shim.__file__).parents[3])
    argv = [sys.executable, "-c", LATE, src, root.path, "1", str(theirs), "sleep", "60"]
    with subprocess.Popen(argv, pass_fds=[theirs]) as process, os.fdopen(report) as lines:
        os.close(theirs)
        os.killpg(int(lines.readline().split()[1]), signal.SIGTERM)
        assert lines.readline() == "ended - 15\n"
        assert process.wait(60) == 0
