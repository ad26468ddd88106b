"""What is asked of Slurm beforehand, runs on several of its nodes, and what they leave behind."""

import shutil
import tempfile
from pathlib import Path

import pytest

from sojourn.backends.launcher.sbatch import NotShared
from sojourn.core.values import State
from sojourn.verbs.explain.doctor import doctor
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe import scheduled
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from tests.lab.cluster import slurm, until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]


@pytest.mark.campaign
def test_plan_says_when_slurm_would_start_it_or_why_it_would_not(client: Client) -> None:
    answer = plan(client.ctx, RunRequest(client.job("true")))
    assert answer.exit_status == 0 and any("Slurm would start it at 20" in line for line in answer.remarks), answer
    client.site("local", partition="nosuch")
    job = client.job("true")
    answer = plan(client.ctx, RunRequest(job))
    assert answer.next == f"sojourn plan {job}", "once the settings are mended"
    (finding,) = answer.findings
    assert answer.exit_status == 11 and finding.id == "scheduler-refuses" and "sinfo -s" in finding.fix, finding
    assert "invalid partition" in finding.title and not client.cluster.sh("squeue -h").strip()


def test_a_base_in_memory_is_refused_alike_by_doctor_plan_and_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    client.base = Path(tempfile.mkdtemp(dir="/dev/shm")) / "base"
    try:
        client.site("local")
        looked, planned = doctor(client.ctx, "hpc"), plan(client.ctx, RunRequest(client.job("true")))
        with pytest.raises(NotShared) as refused:
            client.run("true")
    finally:
        shutil.rmtree(client.base.parent)
    assert (looked.exit_status, planned.exit_status) == (11, 11), (looked, planned)
    for findings in (looked.findings, planned.findings):
        (finding,) = [one for one in findings if one.severity == "blocker"]
        assert (finding.id, finding.fix) == (refused.value.code, refused.value.next), finding
        assert "it lies in /dev/shm" in finding.title and finding.title == refused.value.message.rstrip(".")
    assert looked.next == planned.next == "sojourn doctor hpc", "what was wrong is looked at again before a plan"


RANKS = """
out=$SOJOURN_RUN_DIR/rank-$SOJOURN_NODE_RANK
echo $(hostname) > "$out"
env | grep -E "^(SOJOURN_N|MASTER|WORLD|RANK|LOCAL_RANK|PET_|OMP|SRUN_CPUS|CUDA)" >> "$out"
trap 'touch "$SOJOURN_RUN_DIR/saved-$SOJOURN_NODE_RANK"; exit 75' TERM
echo "here is $SOJOURN_NODE_RANK"
while :; do sleep 0.1; done
"""


@pytest.mark.campaign
def test_a_run_on_two_nodes_has_a_process_on_each_that_knows_the_others(client: Client) -> None:
    client.site("local", time="10:00")
    client.run(RANKS, num_nodes=2, resources={"cpus": 2, "accelerators": "stub:2"})
    until(lambda: "here is 0" in client.logs() and "here is 1" in client.logs(), client.logs)
    told = [(client.root() / f"rank-{rank}").read_text().splitlines() for rank in (0, 1)]
    assert len({lines[0] for lines in told} & set(client.cluster.nodes)) == 2
    for rank, lines in enumerate(told):
        for word in (f"RANK={rank}", "WORLD_SIZE=2", "LOCAL_RANK=0", f"PET_NODE_RANK={rank}", "PET_NNODES=2"):
            assert word in lines, lines
        assert "MASTER_ADDR=127.0.0.1" in lines and "SOJOURN_NUM_NODES=2" in lines, lines
        assert "SRUN_CPUS_PER_TASK=2" in lines and "CUDA_VISIBLE_DEVICES=0,1" in lines, lines
    ended = stop(client.ctx, "r", confirm=lambda ask: ask.name)
    assert ended.state is State.CANCELLED, ended
    assert all((client.root() / f"saved-{rank}").exists() for rank in (0, 1)), client.logs()


def test_each_node_is_looked_at_before_a_run_begins_and_one_that_will_not_do_is_named(client: Client) -> None:
    _, first, last = client.cluster.nodes
    client.base.mkdir()
    slurm("in", last[1:], f"mount --bind '{client.base}' '{client.base}'; mount -o remount,bind,ro '{client.base}'")
    try:
        client.site("local", nodelist=f"{first},{last}")
        client.run("touch $SOJOURN_RUN_DIR/began", num_nodes=2)
        client.becomes(State.LOST)  # nowhere else may it go
    finally:
        slurm("in", last[1:], f"umount '{client.base}'")
    (end,) = client.events("ended")
    assert end["state"] == "lost" and end["detail"].startswith(
        f"{last}: no file can be written in {client.root()} (EROFS"
    )
    (checked,) = client.events("checked")
    assert checked["host"] == first and [node["host"] for node in checked["nodes"]] == [last], checked
    assert not (client.root() / "began").exists()


def test_a_node_that_fails_ends_the_whole_run(client: Client) -> None:
    client.run("[ $SOJOURN_NODE_RANK = 0 ] || { sleep 1; exit 3; }; sleep 300", num_nodes=2)
    row = client.becomes(State.FAILED)
    assert row.attempt == 1 and "exit status 3" in row.reason and "cancelled" not in row.reason, row
    log = (client.root() / "logs" / "1.log").read_text()
    assert log.startswith("sojourn: on node 1 it ended with 3; the others are told to end\n"), log
    assert "Exit" not in log and "Done" not in log, "bash's own words on its jobs are nobody's business"


def test_down_stops_nothing_and_says_what_was_used(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.run("echo 1 > a.json", outputs=["a.json"])
    client.becomes(State.SUCCEEDED)
    assert all(answer.ok for answer in pull(client.ctx, ["r"]))
    record = client.ctx.store.index.find("r")
    said = down(client.ctx, DownRequest("hpc"), confirm=lambda ask: ask.name)
    assert said.released and "nothing to stop" in said.line and "CPU hours; fair share of root" in said.line, said
    monkeypatch.setenv("SLURM_CONF", client.cluster.conf_without_accounting)
    assert "keeps no accounting" in scheduled.used(client.ctx.box(record.site), [record])
