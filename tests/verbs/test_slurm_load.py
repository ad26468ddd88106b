"""The load on the controller of the real Slurm, as it counts it itself, from several runs and watches at once."""

import re
import subprocess
import sys
import time

import pytest

from sojourn.core.values import State
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]
RUNS = ("a", "b", "c")
WATCHED_S = 20.0


def asked(client: Client) -> int:
    """How often the controller was asked for jobs since its counters were set back."""
    found = re.search(r"REQUEST_JOB_INFO +\( *2003\) count:(\d+)", client.cluster.sh("sdiag"))
    return int(found[1]) if found else 0


@pytest.mark.campaign
def test_three_runs_two_watches_and_many_looks_are_one_question_a_minute(client: Client) -> None:
    client.site("local", ask_every=60)
    for name in RUNS:
        client.run("until [ -e $SOJOURN_RUN_DIR/go ]; do sleep 0.2; done", name)
    for name in RUNS:
        client.becomes(State.RUNNING, name)
    client.row("a")
    client.cluster.sh("squeue -h; sdiag -r")
    watch = [sys.executable, "-m", "sojourn", "watch", *RUNS, "--every", "1s"]
    watches = [subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    try:
        end_s = time.monotonic() + WATCHED_S  # really waited: it is what Slurm counts in this time
        while time.monotonic() < end_s:
            assert [client.row(name).state for name in RUNS] == [State.RUNNING] * 3
            time.sleep(1.0)
        assert [one.poll() for one in watches] == [None, None]
        assert asked(client) <= 1
        client.cluster.sh("squeue -h")
        assert asked(client) >= 1, "Slurm counts"
    finally:
        for name in RUNS:
            (client.root(name) / "go").touch()
        said = [one.communicate(timeout=100)[0] for one in watches]
    assert [one.returncode for one in watches] == [110, 110] or [one.returncode for one in watches] == [0, 0], said
