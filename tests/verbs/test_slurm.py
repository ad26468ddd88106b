"""Runs on a real Slurm, from job file to verified home, and what becomes of them when Slurm takes something away."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.backends.slurm.script import BadOption
from sojourn.core.values import State
from sojourn.verbs.explain.why import of_run
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import StoppedByUser, run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.enter import enter
from sojourn.verbs.observe.scheduled import handle_of
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.queue_run import queue_run
from sojourn.verbs.takeover.handbook import handbook
from tests.lab.cluster import until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.mark.campaign
def test_one_job_file_gives_the_same_weights_here_over_ssh_and_on_slurm_though_cut_off_and_requeued(
    client: Client, tmp_path: Path, shared_connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    client.site("ssh", mem="900M")
    for name in ("here", "far", "there"):
        shutil.copytree(DIGITS, tmp_path / name)
        job = (DIGITS / "sojourn.yaml").read_text().replace("--epochs 60", "--epochs 20")
        job += "signal: TERM@240\n"
        (tmp_path / name / "sojourn.yaml").write_text(job)
    asked = RunRequest(str(tmp_path / "there" / "sojourn.yaml"), site="hpc", name="there")
    run(client.ctx, asked)
    first = client.native("there")
    until(lambda: list((client.root("there") / "checkpoints").glob("ckpt-*")), lambda: client.logs("there"))
    client.cluster.limit_now(first, in_s=140)
    client.cluster.sh(
        f"scancel --batch --signal=USR1 {first}"
    )  # as Slurm does before the time limit, if a little later
    waiting = client.becomes(State.QUEUED, "there")
    client.cluster.sh(f"scontrol update job={first} timelimit=20")
    assert waiting.attempt == 2 and f"(Slurm job {first}: " in waiting.reason, waiting.reason
    assert run(client.ctx, asked).did == "nothing"
    run(client.ctx, RunRequest(str(tmp_path / "here" / "sojourn.yaml"), site="local", name="here"))
    run(client.ctx, RunRequest(str(tmp_path / "far" / "sojourn.yaml"), site="far", name="far"))
    client.cluster.begin_now(first)
    row = client.becomes(State.SUCCEEDED, "there", attempt=2)
    assert row.attempt == 2 and client.native("there") == first
    client.becomes(State.SUCCEEDED, "here")
    client.becomes(State.SUCCEEDED, "far")
    for answer in pull(client.ctx, ["here", "far", "there"]):
        assert answer.exit_status == 0 and answer.receipts, answer
    homes = [Path(client.ctx.store.index.find(name).pulled_dir) for name in ("here", "far", "there")]
    assert len({(home / "final.npz").read_bytes() for home in homes}) == 1
    first_end = client.events("ended", "there")[0]
    assert first_end["state"] == "preempted" and client.events("checkpoint", "there")


@pytest.mark.campaign
def test_the_script_is_shown_before_anything_is_submitted(client: Client) -> None:
    client.site("local", partition="spot", time="2:00:00")
    answer = plan(
        client.ctx, RunRequest(client.job("true", resources={"cpus": 2, "memory": 1, "accelerators": "stub:1"}))
    )
    for line in ("--partition=spot", "--time=2:00:00", "--cpus-per-task=2", "--mem=1024M", "--gres=gpu:stub:1"):
        assert f"#SBATCH {line}\n" in answer.script
    assert "#SBATCH --requeue\n" in answer.script and "#SBATCH --signal=B:USR1@150\n" in answer.script
    assert not client.cluster.sh("squeue -h").strip() and answer.exit_status == 0


def test_a_jobs_own_options_stand_over_the_sites_and_those_of_the_command_over_both(client: Client) -> None:
    client.site("local", partition="spot", time="2:00:00", gres="gpu:stub:1")
    job = client.job("true", slurm={"time": "1:00:00", "gpus-per-node": 2, "exclusive": None, "constraint": "blue"})
    answer = plan(client.ctx, RunRequest(job, scheduling={"constraint": "purple"}))
    for line in ("--partition=spot", "--time=1:00:00", "--gpus-per-node=2", "--exclusive", "--constraint=purple"):
        assert f"#SBATCH {line}\n" in answer.script, answer.script
    assert "--gres" not in answer.script and answer.exit_status == 11
    with pytest.raises(BadOption, match="output"):
        plan(client.ctx, RunRequest(client.job("true", slurm={"output": "x"})))


def test_of_a_list_of_accelerators_the_job_asks_for_one_that_the_cluster_has(client: Client) -> None:
    answer = plan(client.ctx, RunRequest(client.job("true", resources={"accelerators": ["A100:1", "stub:1"]})))
    assert "# any of: gpu:a100:1 gpu:stub:1\n" in answer.script and answer.exit_status == 0, answer
    client.run("true", resources={"accelerators": ["A100:1", "stub:1"]})
    assert client.becomes(State.SUCCEEDED) and "--gres=gpu:stub:1\n" in (client.root() / "logs/sbatch.sh").read_text()


@pytest.mark.campaign
def test_a_run_that_waits_is_queued_with_the_reason_in_words_and_stop_takes_it_from_the_queue(client: Client) -> None:
    client.site("local", begin="now+1hour")
    answer = client.run("true")
    assert answer.state is State.QUEUED and answer.exit_status == 0
    assert "Slurm holds it until" in answer.why, answer.why
    again = client.run("true")
    assert again.did == "nothing" and len(client.cluster.sh("squeue -h").splitlines()) == 1
    by_flag = queue_run(client.ctx, RunRequest(client.job("true")))
    assert by_flag.did == "nothing" and by_flag.remarks[-1].startswith("--queue is already the default on hpc")
    steps = {step.title: "\n".join(step.commands) for step in handbook(client.ctx, "r").steps}
    assert "nohup" not in str(steps) and "sbatch sbatch.sh" in steps["put a keeper back"]
    assert f"scancel {client.native()}" in steps["stop it through its scheduler"]
    ended = stop(client.ctx, "r", confirm=lambda ask: ask.name)
    assert ended.ended and ended.state is State.CANCELLED, ended
    assert not client.cluster.sh("squeue -h").strip()
    with pytest.raises(StoppedByUser):
        client.run("true")


@pytest.mark.campaign
def test_a_running_job_is_stopped_by_its_own_keeper_within_a_beat(client: Client) -> None:
    client.run("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    client.is_ready()
    ended = stop(client.ctx, "r", confirm=lambda ask: ask.name)
    assert ended.state is State.CANCELLED and "saved" in client.logs()
    until(lambda: client.cluster.state(client.native()) == "FAILED")  # it did not succeed: for `afterok`, and sacct


def test_an_error_of_the_script_stays_a_failure_and_is_not_requeued(client: Client) -> None:
    client.run("sleep 1; exit 3")
    row = client.becomes(State.FAILED)
    assert row.attempt == 1 and row.reason == "exit status 3"
    path = client.folder / "evidence.json"
    of_run(client.ctx, "r", save=str(path))
    document = json.loads(path.read_text())
    assert document["launch"]["host"] in client.cluster.nodes and document["launch"]["host"] != document["host"]
    assert {"df -Pk", "sacct -P", "slurm-JOB.out"} <= set(document["probes"]), sorted(document["probes"])
    assert any("cgroup" in name for name in document["probes"]), "taken by the keeper on the node"


@pytest.mark.campaign
def test_a_keeper_killed_with_all_it_started_leaves_its_end_to_slurms_record(client: Client) -> None:
    client.run("sleep 300")
    events = client.root() / "events.jsonl"
    until(lambda: client.events("started"))
    keeper = json.loads((client.root() / "keeper.json").read_text())
    client.cluster.sh(
        f"scancel --signal=KILL {client.native()}.0"
    )  # keeper and all, and the batch script ends by itself
    assert keeper["seat"] == f"{client.native()}:0" and keeper["host"] in client.cluster.nodes and events.exists()
    row = client.becomes(State.KILLED)
    assert "Slurm job" in row.reason
    answer = resume(client.ctx, "r")
    assert answer.attempt == 2


@pytest.mark.campaign
def test_a_module_that_init_loads_is_there_and_a_clean_container_gets_what_is_the_runs(client: Client) -> None:
    client.site("local", init="module load apptainer")
    (client.project / "image.sif").touch()
    code = "import os, sojourn.train; print(os.environ['GREETING'], os.environ['SOJOURN_RUN_ID'], sorted(os.environ))"
    inside = f'apptainer exec --cleanenv --bind "${{SOJOURN_RUN_DIR%/runs/*}}" image.sif {sys.executable} -c "{code}"'
    client.run(inside, envs={"GREETING": "hello"})
    client.becomes(State.SUCCEEDED)
    log = (client.root() / "logs" / "1.log").read_text()
    assert log.startswith("hello r [") and "SLURM_JOB_ID" not in log and "SOJOURN_CHECKPOINT_DIR" in log, log


@pytest.mark.campaign
def test_checkpoints_in_what_ends_with_the_job_are_refused(client: Client) -> None:
    code = "import os; from sojourn.train import Checkpointer as C; C(x={}, folder=os.environ['TMPDIR'] + '/ckpt')"
    client.run(f'python3 -c "{code}"')
    row = client.becomes(State.FAILED)
    assert "would end with the job" in client.logs() and client.verdict() == "slurm-checkpoints-on-tmpdir", row


@pytest.mark.campaign
def test_a_login_node_needs_no_settings_be_it_this_machine_or_one_over_ssh(
    client: Client, shared_connections: Path
) -> None:
    for name, site in (("here", "slurm"), ("there", "slurm:login")):
        assert run(client.ctx, RunRequest(client.job("echo on $(hostname)", name), site=site, name=name)).site == site
    for name in ("here", "there"):
        client.becomes(State.SUCCEEDED, name)
        log = Path(client.ctx.store.index.find(name).run.root) / "logs" / "1.log"
        assert log.read_text().strip().removeprefix("on ") in client.cluster.nodes


def test_a_command_runs_on_the_node_of_the_job_in_its_environment(client: Client) -> None:
    client.site("local", nodelist=client.cluster.nodes[2])
    client.run("touch here; until [ -e $SOJOURN_RUN_DIR/go ]; do sleep 0.2; done", envs={"WHO": "me"})
    client.becomes(State.RUNNING)
    _, argv = enter(client.ctx, "r", ["sh", "-c", "echo $(hostname) $WHO; ls here"])
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert said.stdout == f"{client.cluster.nodes[2]} me\nhere\n", said
    handle = handle_of(client.ctx.store.index.find("r"))
    box = client.ctx.box(client.ctx.store.index.find("r").site)
    assert box.launcher.machine(box.place, handle) == "127.0.0.1", "as every node of the laboratory"
    (client.root() / "go").touch()
