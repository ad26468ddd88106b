"""Boxes as they are: odd parents, hidden /proc, clocks that jump, jobs that are none."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import pytest

from sojourn.box.run.root import Root
from tests.box.rig import Rig, found, gone, heard, keeper_log, log, until


def argv(rig: Rig, root: Root) -> List[str]:
    return [sys.executable, "-I", "-S", str(rig.keeper), "supervise", "--root", root.path]


def test_a_parent_that_blocks_and_ignores_signals_changes_nothing(rig: Rig) -> None:
    root = rig.place("bash -c 'trap \"exit 75\" TERM; echo on; while true; do sleep 0.05; done'")
    odd = "import os, signal, sys\n"
    odd += "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    odd += "os.execv(sys.argv[1], sys.argv[1:])"
    keeper = subprocess.Popen([sys.executable, "-c", odd] + argv(rig, root), stdin=subprocess.DEVNULL)
    rig.started.append(keeper)
    until(lambda: os.path.exists(root.log(1)) and "on" in log(root))
    keeper.send_signal(signal.SIGTERM)
    assert keeper.wait(60) == 0
    assert (found(root, "ended")[0]["state"], found(root, "ended")[0]["rc"]) == ("preempted", 75)


def test_a_parent_that_closed_every_stream_changes_nothing(rig: Rig) -> None:
    root = rig.place("echo out; echo err >&2")
    words = " ".join("'%s'" % word.replace("'", "'\\''") for word in argv(rig, root))
    assert subprocess.run(["sh", "-c", "exec %s <&- >&- 2>&-" % words], timeout=60).returncode == 0
    assert found(root, "ended")[0]["state"] == "succeeded" and log(root) == "out\nerr\n"


def test_a_folder_that_is_removed_under_the_one_who_starts_us_changes_nothing(rig: Rig, tmp_path: Path) -> None:
    root = rig.place("pwd")
    here = tmp_path / "here"
    here.mkdir()
    keeper = subprocess.Popen(["sh", "-c", 'rmdir "$PWD"; exec "$@"', "x"] + argv(rig, root), cwd=str(here))
    assert keeper.wait(60) == 0
    assert log(root).strip() == root.attempt(1)


@pytest.mark.lab
def test_where_proc_is_hidden_runs_still_end_with_their_true_exit_status(rig: Rig) -> None:
    if os.getuid():
        pytest.skip("needs root to hide /proc")
    root = rig.place("echo blind; sleep 0.4; exit 6")
    hide = 'mount -t tmpfs none /proc && exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", hide, "x"] + argv(rig, root), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    end = found(root, "ended")[0]
    assert (end["state"], end["rc"]) == ("failed", 6)
    beats = found(root, "beat")
    assert len(beats) >= 2 and "cpu_s" not in beats[0] and log(root) == "blind\n"


def test_a_clock_that_jumps_ages_nothing_and_limits_nothing(rig: Rig) -> None:
    root = rig.place("sleep 1", max_duration_s=600)
    rig.supervise(root)
    heard(root, "beat", 2)
    ahead = time.time() + 7200
    for path in (root.log(1), root.events):
        os.utime(path, (ahead, ahead))  # as after a jump back by two hours
    (row,) = rig.call("since", runs={"r": 0})["runs"]
    assert 0 <= row["log_age_s"] < 600 and 0 <= row["beat_age_s"] < 600  # a beat may have come since
    end = heard(root, "ended")
    assert end["state"] == "succeeded" and 0.9 < end["seconds"] < 600
    assert all(beat["log_age_s"] < 600 and beat["payload_s"] < 600 for beat in found(root, "beat"))


@pytest.mark.parametrize(
    "spec",
    [
        {"argv": None},
        {"argv": []},
        {"argv": "true"},
        {"argv": ["a\0b"]},
        {"envs": ["A=1"]},
        {"envs": {"A=B": "1"}},
        {"envs": {"A": "\0"}},
        {"grace_s": "soon"},
        {"beat_s": -1},
        {"max_duration_s": True},
        {"budget_s": float("nan")},
        {"outputs": "out.txt"},
        {"mounts": {"a": 7}},
        {"retry": {"attempts": "3"}},
        {"code": 7},
    ],
    ids=str,
)
def test_a_job_that_is_none_is_refused_and_never_started(rig: Rig, spec: "dict[str, object]") -> None:
    fields = dict({"run": "r", "identity": "x", "argv": ["true"]}, **spec)
    said = rig.call("place", run=fields, want={"attempt": 1})
    assert (said["ok"], said["code"]) == (False, "bad-spec") and said["message"]
    assert not (rig.base / "runs").exists()


def test_a_job_that_was_written_over_starts_nothing_and_says_why(rig: Rig) -> None:
    root = rig.place("true")
    fields = json.loads(Path(root.run).read_text())
    Path(root.run).write_text(json.dumps(dict(fields, argv="true")))
    assert rig.supervise(root).wait(60) == 74
    assert "argv is not a list of strings" in keeper_log(root) and "Traceback" not in keeper_log(root)
    assert not found(root, "attempt")


def test_what_was_left_behind_between_two_keepers_is_ended_by_the_next(rig: Rig) -> None:
    leave = "setsid -f bash -c 'echo $$ > \"$SOJOURN_RUN_DIR/daemon\"; exec sleep 600'"
    root = rig.place(leave + '; until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done; exit 3')
    keeper = rig.supervise(root)
    heard(root, "beat")
    note = Path(root.path, "daemon")
    daemon = int(until(lambda: note.read_text() if note.exists() else ""))
    keeper.kill()
    keeper.wait()
    Path(root.path, "go").touch()
    until(lambda: os.path.exists(root.exit(1)))
    assert not gone(daemon)
    end = rig.finish(root)
    assert (end["state"], end["rc"]) == ("failed", 3) and end["seconds"] > 0
    assert gone(daemon)


def test_what_is_not_of_the_run_is_left_alone_whatever_it_is_called(rig: Rig) -> None:
    root = rig.place("true")
    env = dict(os.environ, SOJOURN_RUN_DIR=root.path + "-other", SOJOURN_ATTEMPT="1")
    with subprocess.Popen(["sleep", "600"], env=env, start_new_session=True) as stranger:
        rig.finish(root)
        assert stranger.poll() is None
        stranger.kill()


def test_a_long_run_does_not_remember_every_child_it_ever_reaped(rig: Rig) -> None:
    """Orphans of the payload become ours where its shim is gone; each is reaped and forgotten."""
    root = rig.place("touch up; for i in {1..40}; do (sleep 0.01 & ) ; sleep 0.02; done; sleep 600")
    keeper = rig.supervise(root)
    started = heard(root, "started")
    until(Path(root.attempt(1), "up").exists)  # a shim that is killed before leaves no payload
    os.kill(started["shim"]["pid"], signal.SIGKILL)
    heard(root, "beat", 15)

    def zombies() -> int:
        count = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            count += fields[0] == "Z" and int(fields[1]) == keeper.pid
        return count

    until(lambda: zombies() == 0)
    assert keeper.poll() is None
