"""`status` and `why` on a real Slurm say the same of a run, whatever it waits for and however it was refused or cut."""

import os
import re
import signal
import time

import pytest

from sojourn.backends.launcher.sbatch import NotSubmitted
from sojourn.core.values import State
from sojourn.verbs.explain.why import of_run
from sojourn.verbs.launch.stop import stop
from tests.lab.cluster import until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]
GOES_ON = "until [ $SOJOURN_ATTEMPT = 2 ]; do echo segmentation fault; sleep 0.2; done"


def agree(client: Client, name: str, state: State, verdict: str, words: str) -> None:
    """Both say so."""
    row, why = client.row(name), of_run(client.ctx, name)
    assert why.row is not None and (row.state, why.row.state) == (state, state), (row, why)
    assert words in row.reason and words in why.row.reason, (row.reason, why.row.reason)
    found = why.judged.verdict
    assert (found.id if found else "") == verdict and why.judged.is_healthy is not bool(verdict), why.judged
    if state is State.QUEUED and not verdict:
        assert not why.judged.findings, "nothing that ended a run is a candidate for one that waits"


@pytest.mark.campaign
def test_status_and_why_agree_on_what_waits_is_held_suspended_refused_or_had_lost_its_node(client: Client) -> None:
    client.site("local", nodelist=client.cluster.nodes[2])
    client.run(GOES_ON, "cut")
    client.site("local", begin="now+1hour")
    client.run("true", "waits")
    client.site("local", hold=True)
    client.run("true", "held")
    client.site("local")
    client.run("true", "dependent", after=["waits"])
    client.site("local", nodelist=client.cluster.nodes[0])
    client.run("while :; do sleep 0.2; done", "suspended")
    until(lambda: client.events("started", "cut") and client.events("started", "suspended"), client.logs)
    client.cluster.sh(f"scontrol suspend {client.native('suspended')}")
    until(lambda: client.cluster.state(client.native("suspended")) == "SUSPENDED")
    client.cluster.fail(client.cluster.nodes[2])
    agree(client, "waits", State.QUEUED, "", "Slurm holds it until")
    agree(client, "held", State.QUEUED, "slurm-pending", "scontrol release")
    agree(client, "dependent", State.QUEUED, "", "waiting for another job to end")
    agree(client, "suspended", State.QUEUED, "slurm-suspended", "Slurm has suspended it")
    client.cluster.sh(f"scontrol resume {client.native('suspended')}")
    client.becomes(State.RUNNING, "suspended")
    client.becomes(State.QUEUED, "cut")
    agree(client, "cut", State.QUEUED, "slurm-requeued", f"(Slurm job {client.native('cut')}: ")
    client.cluster.mend()
    client.cluster.begin_now(client.native("cut"))
    client.becomes(State.SUCCEEDED, "cut", attempt=2)
    agree(client, "cut", State.SUCCEEDED, "", "")


@pytest.mark.campaign
def test_a_refused_run_is_final_in_slurms_words_and_runs_once_the_request_is_right(client: Client) -> None:
    client.site("local", partition="nosuch")
    with pytest.raises(NotSubmitted):
        client.run("true")
    agree(client, "r", State.FAILED, "slurm-bad-request", "invalid partition specified: nosuch")
    assert stop(client.ctx, "r", confirm=lambda ask: "").ended, "there is nothing to stop, nor to ask about"
    client.site("local")
    client.run("true")
    assert client.becomes(State.SUCCEEDED, attempt=2).attempt == 2


@pytest.mark.campaign
def test_the_controller_is_asked_once_a_minute_at_rest_and_nobody_waits_for_one_that_hangs(client: Client) -> None:
    client.site("local", ask_every=60)
    client.run("until [ -e $SOJOURN_RUN_DIR/go ]; do sleep 0.2; done")
    client.becomes(State.RUNNING)
    client.row()
    client.cluster.sh("sdiag -r")
    for _ in range(5):
        assert client.row().state is State.RUNNING
    asked = re.search(r"REQUEST_JOB_INFO +\( *2003\) count:(\d+)", client.cluster.sh("sdiag"))
    assert asked is None or int(asked[1]) <= 1, asked
    controller = int((client.cluster.folder / "run" / "slurmctld").read_text())
    (client.base / "slurm.moved").touch()  # as a job does that begins or ends
    os.kill(controller, signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        row = client.row()
        took_s = time.monotonic() - began_s
    finally:
        os.kill(controller, signal.SIGCONT)
    assert row.state is State.RUNNING and "did not answer within 4 s" in row.reason and took_s < 30, (row, took_s)
    (client.root() / "go").touch()
    client.becomes(State.SUCCEEDED)


@pytest.mark.campaign
def test_a_node_that_does_not_see_the_folder_is_named_by_both(client: Client) -> None:
    client.base = client.cluster.folder / "tmp" / "base"  # TMPDIR of the nodes
    client.site("local")
    client.run("true")
    client.becomes(State.FAILED)
    agree(client, "r", State.FAILED, "slurm-node-lacks-the-run", "set `base` to a file system that all nodes share")
