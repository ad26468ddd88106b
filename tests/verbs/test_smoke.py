"""`smoke` runs the smoke line in a private copy, on CPU, quietly, for a bounded time, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sojourn.store.job.read import NoJobFile
from sojourn.verbs.project.smoke import NO_GPU, QUIET, NoSmoke, Smoke, smoke


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What TMPDIR holds after a test is what smoke left behind."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def project(tmp_path: Path, line: str, **more: str) -> str:
    folder = tmp_path / "my project"
    folder.mkdir()
    rest = "".join(f"{key}: {value}\n" for key, value in more.items())
    (folder / "sojourn.yaml").write_text(f"name: p\nrun: 'true'\nsmoke: {json.dumps(line)}\n{rest}")
    return str(folder / "sojourn.yaml")


def run(tmp_path: Path, line: str, *, timeout_s: float = 60.0, **more: str) -> Smoke:
    return smoke(project(tmp_path, line, **more), timeout_s=timeout_s)


def is_gone(pid: int) -> bool:
    """No such process, or only its entry: where nobody waits for orphans, they stay as zombies. A process that was
    killed goes as soon as it gets a turn.
    """
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_good_smoke_is_good_and_leaves_nothing(tmp_path: Path, temporary_folder: Path) -> None:
    file = project(tmp_path, "echo hi > out.txt && mkdir d && touch d/x && chmod 500 d && cat out.txt")
    answer = smoke(file)
    assert (answer.ok, answer.exit_status, answer.ended, answer.rc, answer.tail) == (True, 0, "exit", 0, "hi")
    assert list(temporary_folder.iterdir()) == []
    assert os.listdir(os.path.dirname(file)) == ["sojourn.yaml"]


def test_what_only_a_terminal_obeys_is_left_out(tmp_path: Path) -> None:
    line = r"printf '\033[31mred\033[0m\r 1/2\r 2/2\nbell\007 \033]0;title\007done\n'"
    assert run(tmp_path, line).tail == " 2/2\nbell done"


def test_a_bad_smoke_is_exit_1_with_its_last_lines(tmp_path: Path) -> None:
    answer = run(tmp_path, "for i in $(seq 100); do echo line $i; done; echo oops >&2; exit 3")
    assert (answer.exit_status, answer.ended, answer.rc) == (1, "exit", 3)
    assert answer.tail.splitlines()[-2:] == ["line 100", "oops"]
    assert len(answer.tail.splitlines()) == 30


def test_an_unset_pipe_failure_counts_as_it_does_in_run(tmp_path: Path) -> None:
    assert run(tmp_path, "false | true").rc == 1


def test_it_sees_what_would_be_pushed_and_nothing_else(tmp_path: Path) -> None:
    file = project(tmp_path, "ls -A; ./tool; cat link")
    folder = Path(file).parent
    (folder / ".gitignore").write_text("secret.txt\n")
    (folder / "secret.txt").write_text("s")
    (folder / "tool").write_text("#!/bin/sh\necho tool runs\n")
    (folder / "tool").chmod(0o755)
    (folder / "data.txt").write_text("linked\n")
    (folder / "link").symlink_to("data.txt")
    tail = smoke(file).tail.splitlines()
    assert "secret.txt" not in tail and tail[-2:] == ["tool runs", "linked"]


def test_no_tracker_and_no_gpu_is_seen_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    names = [*QUIET, *NO_GPU]
    asked = "import os, json; print(json.dumps({n: os.environ.get(n) for n in %r}))" % names
    answer = run(tmp_path, f'{sys.executable} -c "{asked}"', envs="{WANDB_MODE: online, NEPTUNE_MODE: async}")
    assert json.loads(answer.tail) == {**QUIET, **NO_GPU}


def test_the_job_s_variables_are_set_and_env_wins(tmp_path: Path) -> None:
    file = project(tmp_path, 'echo "$LR $DATA"', envs="{LR: 0.1, DATA: here}")
    assert smoke(file, env={"LR": "0.3"}).tail == "0.3 here"


def test_the_checkpointer_is_there_without_installing_anything(tmp_path: Path) -> None:
    line = f"{sys.executable} -S -c 'import sojourn.train as t; print(t.__file__)'; ls -d \"$SOJOURN_CHECKPOINT_DIR\""
    tail = run(tmp_path, line).tail.splitlines()
    assert ".zip" in tail[0] and tail[1] == ".../checkpoints"


def test_its_stdin_is_empty(tmp_path: Path) -> None:
    assert run(tmp_path, "cat; echo done").tail == "done"


def test_what_does_not_end_is_ended_with_all_that_it_started(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_s = time.monotonic()
    pids = tmp_path / "pids"
    begun = tmp_path / "begun"  # its time runs from then on, however slow the machine
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() if begun.exists() else began_s)
    monkeypatch.setattr("sojourn.verbs.project.smoke.time", clock)
    answer = run(tmp_path, f"sleep 100 & echo $! > {pids}; echo started; touch {begun}; wait", timeout_s=0.5)
    assert (answer.ended, answer.exit_status, answer.tail) == ("timeout", 1, "started")
    assert time.monotonic() - began_s < 60
    assert is_gone(int(pids.read_text()))
    assert list(temporary_folder.iterdir()) == []


def test_what_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.verbs.project.smoke.GRACE_S", 0.5)
    answer = run(tmp_path, "trap '' TERM; while :; do sleep 0.1; done", timeout_s=0.3)
    assert answer.ended == "timeout"


def test_a_child_left_behind_does_not_outlive_a_smoke_that_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = run(tmp_path, f"sleep 100 & echo $! > {pids}")
    assert answer.ok and answer.seconds < 60
    assert is_gone(int(pids.read_text()))


def test_a_flood_of_output_is_bounded(tmp_path: Path) -> None:
    answer = run(tmp_path, "yes | head -c 50000000 || true; echo; echo last")
    assert answer.ok and len(answer.tail.splitlines()) == 30 and answer.tail.endswith("\nlast")


def test_death_by_a_signal_is_named(tmp_path: Path) -> None:
    answer = run(tmp_path, "kill -SEGV $$")
    assert (answer.ended, answer.rc, answer.exit_status) == ("signal", signal.SIGSEGV, 1)


def test_mounted_data_is_there_and_new_files_stay_out_of_it(tmp_path: Path) -> None:
    data = tmp_path / "data" / "deep"
    data.mkdir(parents=True)
    (data / "x.txt").write_text("7\n")
    answer = run(tmp_path, "cat set/deep/x.txt; touch set/deep/new", file_mounts=f"{{set: {tmp_path / 'data'}}}")
    assert answer.tail == "7"
    assert os.listdir(data) == ["x.txt"]


def test_a_job_without_a_smoke_line_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("run: 'true'\n")
    with pytest.raises(NoSmoke) as error:
        smoke(str(tmp_path / "job.yaml"))
    assert error.value.exit_status == 2
    with pytest.raises(NoJobFile):
        smoke(str(tmp_path / "nope.yaml"))


def test_ctrl_c_ends_the_command_and_removes_its_copy(tmp_path: Path, temporary_folder: Path) -> None:
    file = project(tmp_path, 'echo $$ > "$OUT"; sleep 100')
    out = tmp_path / "pid"
    argv = [sys.executable, "-m", "sojourn", "smoke", file, "--env", f"OUT={out}"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    while not (out.exists() and out.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130 and "its copy removed" in stderr
    assert is_gone(int(out.read_text()))
    assert list(temporary_folder.iterdir()) == []


def test_the_command_shows_it_at_80_columns(tmp_path: Path) -> None:
    file = project(tmp_path, "echo looking; ls nowhere")
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "smoke", file],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "ran      echo looking; ls nowhere"
    assert done.stdout.splitlines()[1].startswith("failed   exit status 2 after")
    assert done.stdout.splitlines()[2:4] == ["log", "  looking"]
    assert done.stdout.splitlines()[-1] == f"next     sojourn smoke '{file}'"
