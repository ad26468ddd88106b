"""Ways to wait and to be refused on a real Slurm, written down: what `status` and `why` say of each, alike.

One cluster has all of them at a time, as a busy one has. The controller's own count of questions stands at the end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sojourn.backends.launcher.sbatch import NotSubmitted
from sojourn.core.values import State
from sojourn.verbs.explain.why import of_run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.status import status
from tests.lab.cluster import Cluster, slurm, until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.campaign, pytest.mark.timeout(1800)]
AWAKE = "while :; do sleep 0.2; done"
LATER = {"begin": "now+1hour"}


@dataclass(frozen=True)
class Said:
    """What both say of a run: its state, the verdict ("": none, and `why` calls it healthy), words of both."""

    state: State
    verdict: str = ""
    words: str = ""
    command: str = "true"
    options: tuple[tuple[str, object], ...] = ()


def waits(verdict: str, words: str, command: str = "true", **options: object) -> Said:
    """A run that waits."""
    return Said(State.QUEUED, verdict, words, command, tuple(options.items()))


PENDING = {
    "begins-later": waits("", "Slurm holds it until", **LATER),
    "held": waits("slurm-pending", "scontrol release", hold=True),
    "drained-node": waits("slurm-pending", "ReqNodeNotAvail", nodelist="{drained}"),
    "partition-down": waits("slurm-pending", "PartitionDown", partition="spot"),
    "too-long": waits("slurm-pending", "PartitionTimeLimit", partition="short", time=10),
    "reserved-later": waits("", "Reservation", reservation="tomorrow"),
    "license-taken": waits("", "Licenses", licenses="sim:1"),
    "qos-jobs": waits("slurm-pending", "QOSMaxJobsPerUserLimit", qos="one"),
    "qos-group": waits("slurm-pending", "QOSGrpJobsLimit", qos="closed"),
    "resources": waits("", "", nodelist="{full}"),
}
REFUSED = {
    "no-partition": ("partition", "nosuch"),
    "inactive-partition": ("partition", "grace"),
    "no-qos": ("qos", "nosuch"),
    "no-account": ("account", "nosuch"),
    "no-feature": ("constraint", "nosuch"),
    "no-gres": ("gres", "gpu:nosuch:1"),
    "too-much-memory": ("mem", "900G"),
    "no-reservation": ("reservation", "nosuch"),
}


@pytest.fixture
def busy(cluster: Cluster, client: Client) -> Iterator[Client]:
    """A cluster with limits, a licence, a drained node, a full one, and a reservation for tomorrow."""
    slurm("limits")
    drained = cluster.nodes[2]
    cluster.sh(f"scontrol update nodename={drained} state=drain reason=test")
    cluster.sh("scontrol update partitionname=spot state=down; scontrol update partitionname=grace state=inactive")
    when = "starttime=now+1day duration=60"
    cluster.sh(f"scontrol create reservation reservationname=tomorrow {when} nodes={drained} users=root")
    try:
        yield client
    finally:
        client.site("local")
        cluster.sh("scancel -u root; scontrol delete reservationname=tomorrow || true")
        cluster.sh("scontrol update partitionname=spot state=up; scontrol update partitionname=grace state=up")
        slurm("no-limits")


def start(client: Client, name: str, said: Said) -> None:
    _, full, drained = client.cluster.nodes
    places = {"{full}": full, "{drained}": drained}
    client.site("local", **{key: places.get(str(value), value) for key, value in said.options})
    client.run(said.command, name)


def differ(client: Client, name: str, said: Said) -> list[str]:
    """In what they disagree with what is written down, or with each other."""
    row, why = client.row(name), of_run(client.ctx, name)
    found = why.judged.verdict.id if why.judged.verdict else ""
    wrong = []
    if row.state is not said.state or why.row is None or why.row.state is not said.state:
        wrong.append(f"states {row.state.value} and {why.row and why.row.state.value}, not {said.state.value}")
    if said.words not in row.reason or (why.row and said.words not in why.row.reason):
        wrong.append(f"{said.words!r} is not in {row.reason!r} and {why.row and why.row.reason!r}")
    if found != said.verdict or why.judged.is_healthy is bool(said.verdict):
        wrong.append(f"why says {found!r}, not {said.verdict!r}: {why.judged.findings}; {why.note}")
    if said.state is State.QUEUED and not said.verdict and why.judged.findings:
        wrong.append(f"candidates for one that waits: {[one.id for one in why.judged.findings]}")
    outcome = {State.QUEUED: ("waiting", "requeued"), State.SUCCEEDED: ("finished",)}.get(
        said.state, (said.state.value,)
    )
    if why.outcome not in outcome:
        wrong.append(f"its outcome is {why.outcome}")
    return [f"{name}: {line}" for line in wrong]


def test_what_waits_is_told_with_its_reason_by_both(busy: Client) -> None:
    client = busy
    client.site("local", nodelist=client.cluster.nodes[1], exclusive=True)
    client.run(AWAKE, "fills")
    client.site("local", nodelist=client.cluster.nodes[0], licenses="sim:1", qos="one")
    client.run(AWAKE, "takes")
    until(lambda: client.events("started", "fills") and client.events("started", "takes"), client.logs)
    for name, said in PENDING.items():
        start(client, name, said)
    client.site("local")
    client.run("true", "depends", after=["begins-later"])
    until(lambda: "None" not in client.cluster.sh("squeue -h -t pending -o %r"), lambda: client.cluster.sh("squeue"))
    wrong = [line for name, said in PENDING.items() for line in differ(client, name, said)]
    wrong += differ(client, "depends", waits("", "waiting for another job to end"))
    client.cluster.sh(f"scontrol suspend {client.native('takes')}")
    wrong += differ(client, "takes", waits("slurm-suspended", "Slurm has suspended it"))
    client.cluster.sh(f"scontrol resume {client.native('takes')}; scontrol requeuehold {client.native('fills')}")
    client.becomes(State.QUEUED, "fills")
    wrong += differ(client, "fills", waits("slurm-pending", "scontrol release"))
    assert not wrong, "\n".join(wrong)
    client.cluster.sh("sdiag -r")
    for _ in range(5):
        status(client.ctx, [])
    asked = re.search(r"REQUEST_JOB_INFO +\( *2003\) count:(\d+)", client.cluster.sh("sdiag"))
    assert asked is None or int(asked[1]) <= 5, "one question for all runs"


def test_what_was_refused_is_final_in_slurms_words(busy: Client) -> None:
    client, wrong = busy, []
    for name, (option, value) in REFUSED.items():
        client.site("local", **{option: value})
        with pytest.raises(NotSubmitted):
            client.run("true", name)
        wrong += differ(client, name, Said(State.FAILED, "slurm-bad-request"))
        wrong += [f"{name}: not Slurm's words" for row in [client.row(name)] if "cannot open" in row.reason]
        assert stop(client.ctx, name, confirm=lambda ask: "").ended
    assert not wrong, "\n".join(wrong)
