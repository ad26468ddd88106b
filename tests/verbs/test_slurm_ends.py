"""How runs end on a real Slurm, each with its finding: as its accounting tells it, and where there is none."""

import contextlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from sojourn.backends.slurm.script import job_name
from sojourn.core.values import State
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.retrieve.pull import pull
from tests.lab.cluster import slurm, until
from tests.verbs.slurm_client import Client

pytest_plugins = [
    "tests.lab.fixtures",
    "tests.lab.cluster_fixtures",
    "tests.verbs.slurm_fixtures",
    "tests.lab.nvml_fixtures",
]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SLOW = """import os, signal, time, train
if "DEAF" in os.environ:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it saves, and does not hear that its time is over
real = train.accuracy
train.accuracy = lambda *what: time.sleep(float(os.environ["PAUSE"])) or real(*what)
train.main()
"""
QUICK, SLOWLY, CUT = 'PAUSE: "0"', 'PAUSE: "2.5"', 'PAUSE: "2.5", DEAF: "1"'
AWAKE = "n=0; while :; do n=$((n + 1)); echo $n; sleep 0.2; done"
SAVES = "trap 'exit 75' TERM; echo ready; until [ $SOJOURN_ATTEMPT = 2 ]; do sleep 0.1; done"
DEAF = "trap '' TERM; while :; do sleep 0.2; done"
HUNGRY = "python3 -c 'import time; held = b\"x\" * (400 << 20); time.sleep(200)'"


def ends(client: Client, state: State, names: tuple[str, str], finding: str, *words: str) -> None:
    """Both end so and are told so: the first is asked about with accounting, the second without."""
    for name, how in zip(names, (pytest.MonkeyPatch.context, client.without_accounting), strict=True):
        with how():
            row = client.becomes(state, name)
            assert all(re.search(word, row.reason) for word in words), row.reason
            assert f"job {client.native(name)}: " in row.reason, row.reason
            assert client.verdict(name) == finding, client.logs(name)


def started(client: Client, *names: str) -> None:
    """Wait until these run, and have Slurm start none of them again."""
    for name in names:
        until(lambda name=name: client.events("started", name), lambda name=name: client.logs(name))
        client.cluster.sh(f"scontrol update job={client.native(name)} requeue=0")


@pytest.mark.campaign
def test_memory_and_scancel_are_told_apart_each_with_its_finding(client: Client) -> None:
    client.site("local", begin="now+1hour")
    client.run("true", "waits")
    client.site("local")
    client.run(AWAKE, "runs")
    client.site("local", mem="150M")
    client.run(HUNGRY, "eats")
    client.run(HUNGRY, "eats-too")
    client.cluster.sh(f"scancel {client.native('waits')} {client.native('runs')}")
    ends(client, State.CANCELLED, ("waits", "runs"), "slurm-cancelled", "scancel", "CANCELLED")
    # 150M and a fifth more; what it was seen to use may be a little beyond its limit.
    least = "request --mem=1[89][0-9]M" if client.cluster.has_cgroups() else "request --mem="
    ends(client, State.OOM, ("eats", "eats-too"), "slurm-out-of-memory", least)


def test_a_node_that_fails_is_told_and_what_lives_on_there_writes_nothing_that_counts(client: Client) -> None:
    client.run(AWAKE, "told")
    client.run(AWAKE, "untold")
    started(client, "told", "untold")
    lost = {str(client.events("attempt", name)[0]["host"]) for name in ("told", "untold")}
    try:
        for node in lost:
            slurm("drop", node[1:])  # its slurmd; what it started lives on
            client.cluster.fail(node)
        ends(client, State.LOST, ("told", "untold"), "node-failed", "its node", "failed", "NODE_FAIL")
        log = client.root("told") / "logs" / "1.log"
        size = log.stat().st_size
        until(lambda: log.stat().st_size > size)
        assert resume(client.ctx, "told").attempt == 2
        row = client.becomes(State.RUNNING, "told", attempt=2)
        assert row.attempt == 2 and client.events("attempt", "told")[-1]["host"] not in lost
        until(lambda: "was taken over by a later one" in (log.parent / "keeper.log").read_text(), client.logs)
        states = [(event["attempt"], event["state"]) for event in client.events("ended", "told")]
        assert states == [(1, "lost")], states
    finally:
        for node in lost:
            slurm("off", node[1:])
            slurm("on", node[1:])
    assert stop(client.ctx, "told", confirm=lambda ask: ask.name).state is State.CANCELLED


@pytest.mark.campaign
def test_a_job_that_comes_first_takes_their_machines_and_what_may_be_put_back_goes_on_after_it(client: Client) -> None:
    _, second, third = client.cluster.nodes
    client.site("local", partition="spot", nodelist=second)
    client.run(AWAKE, "told")
    client.run(AWAKE, "untold")
    client.site("local", partition="grace", nodelist=third)
    client.run(SAVES, "again")
    started(client, "told", "untold")
    client.is_ready("again")
    client.cluster.sh(f"sbatch -p main -N 2 -w {second},{third} --exclusive -o /dev/null --wrap true")
    ends(client, State.PREEMPTED, ("told", "untold"), "slurm-preempted", "to a job with a higher priority", "PREEMPTED")
    client.cluster.begin_now(client.native("again"))
    assert client.becomes(State.SUCCEEDED, "again", attempt=2).attempt == 2
    assert [event["state"] for event in client.events("ended", "again")] == ["preempted", "succeeded"]


@pytest.mark.campaign
def test_a_time_limit_puts_a_run_that_saves_back_and_times_out_one_that_does_not(client: Client) -> None:
    client.site("local", time=10)
    client.run(SAVES, "saves", signal="TERM@240")
    client.run("echo ready; until [ -e $SOJOURN_RUN_DIR/go ]; do sleep 0.2; done", "plain")
    client.run(DEAF, "deaf")
    client.run(DEAF, "deaf-too")
    for name in ("deaf", "deaf-too"):
        until(lambda name=name: client.events("started", name), lambda name=name: client.logs(name))
    client.is_ready("saves")
    for name in ("saves", "plain"):
        client.cluster.limit_now(client.native(name), in_s=140)  # its signal is to come 150 s before
    for name in ("deaf", "deaf-too"):
        client.cluster.limit_now(client.native(name))
    client.becomes(State.QUEUED, "saves")
    for name in ("saves", "plain"):
        until(lambda name=name: "this job ends soon, in " in client.logs(name), lambda: client.logs())
    assert client.row("plain").state is State.RUNNING, "it cannot save, so its time is its own"
    (client.root("plain") / "go").touch()
    client.becomes(State.SUCCEEDED, "plain")
    client.cluster.begin_now(client.native("saves"))
    assert client.becomes(State.SUCCEEDED, "saves", attempt=2).attempt == 2
    ends(client, State.TIMEOUT, ("deaf", "deaf-too"), "walltime", "time limit")


@pytest.mark.campaign
def test_a_job_that_could_not_be_started_is_told_and_one_that_is_held_for_it_waits(client: Client) -> None:
    client.site("local", hold=True)
    for name in ("told", "untold"):
        client.run("true", name)
        (client.root(name) / "logs").rename(client.root(name) / "away")
    node = client.cluster.nodes[2]
    client.site("local", hold=True, nodelist=node)
    client.run("true", "held")
    client.cluster.sh(f"scontrol release {client.native('told')},{client.native('untold')}")
    words = ("Slurm could not start it on its node", "JobLaunchFailure")
    ends(client, State.LOST, ("told", "untold"), "slurm-launch-failed", *words)
    spool = client.cluster.folder / "spool" / node
    spool.rename(spool.with_suffix(".away"))
    try:
        spool.touch()  # no folder: its slurmd cannot lay down the batch script
        client.cluster.sh(f"scontrol release {client.native('held')}")
        until(lambda: "launch failed" in client.cluster.sh("squeue -h -o %r"), lambda: client.cluster.sh("squeue -a"))
        row = client.becomes(State.QUEUED, "held")
        assert f"it failed to start, so Slurm holds it (scontrol release {client.native('held')})" in row.reason, row
    finally:
        spool.unlink()
        spool.with_suffix(".away").rename(spool)
        client.cluster.mend()
    client.cluster.sh(f"scontrol release {client.native('held')}")
    client.cluster.begin_now(client.native("held"))
    assert client.becomes(State.SUCCEEDED, "held").attempt == 1


@pytest.mark.campaign
def test_a_run_that_was_put_back_and_is_held_waits_and_is_no_hang(client: Client) -> None:
    client.run(SAVES, signal="TERM@240", stall_after="1s")
    client.is_ready()
    client.cluster.sh(f"scontrol requeuehold {client.native()}")
    row = client.becomes(State.QUEUED)
    until(lambda: "scontrol release" in client.row().reason, lambda: client.row())
    assert client.verdict() in ("", "ended-by-term", "slurm-pending") and row.attempt == 2, row
    client.cluster.sh(f"scontrol release {client.native()}")
    client.cluster.begin_now(client.native())
    assert client.becomes(State.SUCCEEDED, attempt=2).attempt == 2


@pytest.mark.campaign
def test_completed_in_slurm_without_a_record_of_our_own_is_no_success(client: Client) -> None:
    name = job_name(str(client.root()))
    other = client.cluster.sh(f"sbatch --parsable -H -J {name} -o /dev/null --wrap true").strip()
    client.run("true")
    assert client.native() == other, "it goes by the name"
    client.cluster.sh(f"scontrol release {other}")
    row = client.becomes(State.LOST)
    assert "COMPLETED" in row.reason and "left no record of how it ended" in row.reason, row
    assert client.verdict() == "completed-but-unfinished"


@pytest.mark.campaign
def test_a_machine_that_is_not_as_the_job_needs_is_found_out_before_anything_starts_on_it(
    client: Client,
    nvml: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client.site("local", **{"cpus-per-task": 1})
    client.run("touch $SOJOURN_RUN_DIR/began", resources={"cpus": 2})
    row = client.becomes(State.FAILED)
    (checked,) = client.events("checked")
    assert "the job needs 2 CPUs but has 1 here" in row.reason and checked["host"] in row.reason, (row, checked)
    assert not (client.root() / "began").exists() and not client.events("started")
    assert client.verdict() == "machine-not-as-needed" and client.cluster.state(client.native()) == "FAILED"
    for name, value in nvml.items():
        monkeypatch.setenv(name, value)  # goes along with the job
    client.site("local")
    client.run("touch $SOJOURN_RUN_DIR/began", "lost", resources={"accelerators": "stub:2"})
    client.becomes(State.QUEUED, "lost", attempt=2)
    (end,) = client.events("ended", "lost")
    assert "GPU 1 is lost here (NVML error 15)" in end["detail"] and not (client.root("lost") / "began").exists(), end
    kept = json.loads((client.root("lost") / "evidence" / "1.json").read_text())
    assert kept["host"] in client.cluster.nodes and any("nvidia-smi" in name for name in kept["probes"])
    client.run("true", "well", resources={"accelerators": "stub:1"})
    assert client.becomes(State.SUCCEEDED, "well") and client.events("checked", "well")[0]["writes"] == "ok"


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_a_real_time_limit_of_a_minute_and_what_it_cuts_goes_on_bit_for_bit(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Slurm's own signal back into the queue; by the limit itself, as accounting tells it and without, and `run`."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")

    def start(name: str) -> None:
        client.site("local", time=1, signal="B:USR1@30" if name == "warned" else "B:USR1@300")  # in time, and too soon
        run(
            client.ctx,
            RunRequest(str(tmp_path / name / "sojourn.yaml"), site="local" if name == "here" else "hpc", name=name),
        )

    for name, envs in (("here", QUICK), ("warned", SLOWLY), ("cut", CUT), ("cut-untold", CUT)):
        shutil.copytree(DIGITS, tmp_path / name)
        job = (DIGITS / "sojourn.yaml").read_text().replace("train.py --epochs 60", "slow.py --epochs 40")
        job = job.replace("run: python", "run: trap '' TERM; python" if envs == CUT else "run: python")
        (tmp_path / name / "sojourn.yaml").write_text(job.replace("envs: {", f"envs: {{{envs}, "))
        (tmp_path / name / "slow.py").write_text(SLOW)
        start(name)
    limits, hurried, left = set(), set(), {"warned", "cut", "cut-untold"}

    def move(name: str) -> None:
        row = client.row(name)
        if row.state is State.QUEUED:
            if (name, row.attempt) not in hurried and client.cluster.hurry(client.native(name)):
                hurried.add((name, row.attempt))
        elif row.state is State.TIMEOUT and client.ctx.store.index.find(name).is_settled:
            assert client.verdict(name) == "walltime", row
            if "it reached its time limit of 00:01:00" in row.reason:
                limits.add(name)
            start(name)
        elif row.state is State.SUCCEEDED:
            left.remove(name)

    def is_over() -> bool:
        for name in sorted(left):
            with client.without_accounting() if name == "cut-untold" else contextlib.nullcontext():
                move(name)
        return not left

    until(is_over, lambda: [client.row(name) for name in left], within_s=900.0)
    client.becomes(State.SUCCEEDED, "here")
    assert limits >= {"cut", "cut-untold"}, "the limit itself"
    assert "preempted" in [event["state"] for event in client.events("ended", "warned")]
    names = ["here", "warned", "cut", "cut-untold"]
    assert all(answer.ok for answer in pull(client.ctx, names))
    homes = [Path(client.ctx.store.index.find(name).pulled_dir) for name in names]
    assert len({(home / "final.npz").read_bytes() for home in homes}) == 1
