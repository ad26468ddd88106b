"""A node with a fault of its own: cells leave it for other nodes, and new jobs keep away from it for a while."""

import os
from pathlib import Path

import pytest

from sojourn.core.values import State
from sojourn.verbs.explain.doctor import doctor
from sojourn.verbs.observe.status import status
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.lab.cluster import until
from tests.verbs.slurm_client import Client

pytest_plugins = [
    "tests.lab.fixtures",
    "tests.lab.cluster_fixtures",
    "tests.verbs.slurm_fixtures",
    "tests.lab.nvml_fixtures",
]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]


@pytest.fixture
def bad_node(client: Client, nvml: dict[str, str]):
    """A node that has lost a card, as its driver says; the others have no driver to ask."""
    node = client.cluster.nodes[1]
    prolog = client.cluster.folder / "etc" / "task-prolog"
    before = prolog.read_text()
    lines = "\n".join(f"  echo 'export {name}={value}'" for name, value in nvml.items())
    prolog.write_text(f'{before}if [ "$SLURMD_NODENAME" = {node} ]; then\n{lines}\nfi\n')
    yield node
    prolog.write_text(before)


def test_one_bad_node_eats_no_cell_and_is_remembered(client: Client, bad_node: str) -> None:
    job = client.job(
        "date > result.txt", "ab", outputs=["result.txt"], resources={"accelerators": "stub:2"},
        sweep={"matrix": {"lr": [0, 1, 2]}},
    )  # fmt: skip
    assert sweep(client.ctx, SweepRequest(job)).exit_status == 0

    put_back: set[str] = set()

    def is_over() -> bool:
        rows = status(client.ctx, ["ab"]).rows
        for row in rows:
            if row.state is State.QUEUED and row.attempt > 1 and row.id not in put_back:
                job = client.native(row.id)
                until(lambda job=job: f"ExcNodeList={bad_node} " in client.cluster.sh(f"scontrol -o show job {job}"))
                client.cluster.begin_now(job)
                put_back.add(row.id)
        return all(row.state is State.SUCCEEDED for row in rows)

    until(is_over, lambda: (status(client.ctx, ["ab"]).rows, [client.logs(f"ab-lr{n}") for n in range(3)]))
    ends = [end for n in range(3) for end in client.events("ended", f"ab-lr{n}")]
    hosts = [client.events("attempt", f"ab-lr{n}")[-1]["host"] for n in range(3)]
    assert bad_node not in hosts and sorted(end["state"] for end in ends) == ["lost"] + ["succeeded"] * 3, (hosts, ends)
    (finding,) = (one for one in doctor(client.ctx, "hpc").findings if one.id == "node-avoided")
    assert bad_node in finding.title and "GPU 1 is lost here" in finding.cause, finding
    client.run("true", "later")
    assert f"ExcNodeList={bad_node} " in client.cluster.sh(f"scontrol -o show job {client.native('later')}")
    os.utime(Path(client.base / "avoid" / bad_node))  # it is a file that a person may remove


@pytest.mark.campaign
def test_a_job_that_names_the_bad_node_ends_with_its_fault(client: Client, bad_node: str) -> None:
    """Excluding the one node that it asks for would leave it in the queue for ever."""
    client.run("true", "pinned", resources={"accelerators": "stub:2"}, slurm={"nodelist": bad_node})
    until(lambda: status(client.ctx, ["pinned"]).rows[0].state.is_final, lambda: client.logs("pinned"))
    (row,) = status(client.ctx, ["pinned"]).rows
    assert row.state is State.LOST and "GPU 1 is lost here" in (row.reason or ""), row
