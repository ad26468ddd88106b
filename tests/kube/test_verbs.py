"""Commands on a namespace: plan shows the Job, why reads what the cluster keeps, a sweep is one Indexed Job."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.kube import reader
from tests.kube.cluster import Cluster, until
from tests.person import ROOT, Person

RUNS = "app.kubernetes.io/component=run"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.node("n1")
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        yield cluster


@pytest.fixture
def ann(tmp_path: Path, cluster: Cluster) -> Person:
    ann = Person(tmp_path, "ann", ROOT / "src", "k8s:lab/ml", "")
    ann.env["KUBECONFIG"] = str(cluster.kubeconfig)
    return ann


def job(ann: Person, run: str, more: str = "") -> None:
    (ann.project / "sojourn.yaml").write_text(f"name: a\nsite: {ann.site}\nrun: {json.dumps(run)}\n{more}")


def pod(cluster: Cluster) -> Any:
    return until(lambda: [one for one in cluster.pods(RUNS) if one["status"]["phase"] == "Running"], 30)[-1]


@pytest.mark.campaign
def test_a_plan_shows_the_job_and_what_the_cluster_says_of_it(ann: Person, cluster: Cluster) -> None:
    own = "k8s: {shm: 1Gi, pod: {container: {securityContext: {runAsUser: 1000, runAsNonRoot: true}}}}\n"
    job(ann, "true", f"resources: {{cpus: 2}}\n{own}")
    said = ann("plan", "--json", rc=None)
    assert "sizeLimit: 1Gi" in said["script"] and "runAsUser: 1000" in said["script"]
    assert "runAsNonRoot: true" in said["script"]
    assert "kind: Job" in said["script"] and "cpu: '2'" in said["script"]
    assert any("1 of 1 nodes are large enough" in remark for remark in said["remarks"])
    cluster.store.create("resourcequotas", "ml", {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}})
    said = ann("plan", "--json", rc=11)
    assert "exceeded quota: q, requested: requests.cpu=2" in said["findings"][0]["title"]
    assert not cluster.store.all("jobs")
    job(ann, "true", "k8s: {imagge: x}\n")
    assert "imagge cannot be set here: there are claim" in ann("plan", rc=2).stderr


@pytest.mark.campaign
def test_why_names_the_memory_limit_that_the_cluster_enforced(ann: Person, cluster: Cluster) -> None:
    job(ann, "sleep 300", "resources: {memory: 1}\n")
    ann("run")
    with cluster.store.lock:
        cluster.nodes.end(pod(cluster), reason="OOMKilled")
    assert "request more with `memory`" in ann.until("oom")["reason"]
    said = ann("why", "a", "--json", rc=1)
    assert said["verdict"]["id"] == "k8s-out-of-memory", said


@pytest.mark.campaign  # `run` stays with a run that waits for 20 s
def test_why_of_a_run_that_waits_names_what_it_waits_for(ann: Person, cluster: Cluster) -> None:
    job(ann, "sleep 300", "resources: {accelerators: 'gpu:1'}\n")
    ann("run", rc=None)
    row = ann.until("queued")
    assert "no node has enough free GPUs of that kind" in row["reason"]
    said = ann("why", "a", "--json", rc=1)
    assert said["verdict"]["id"] in ("k8s-unschedulable", "k8s-no-gpu-advertised"), said


@pytest.mark.parametrize("count, bad", [(6, 2), pytest.param(200, 20, marks=pytest.mark.campaign)])
def test_a_sweep_is_one_indexed_job_and_names_the_cells_that_failed(
    ann: Person, cluster: Cluster, count: int, bad: int
) -> None:
    step = count // bad
    cells = ", ".join(f"'{n}'" for n in range(count))
    run = f"test $((N % {step})) != 0 || exit 3; echo '{{\"n\": '$N'}}' >metrics.json"
    job(ann, run, f"outputs: [metrics.json]\nenvs: {{N: '${{n}}'}}\nsweep: {{matrix: {{n: [{cells}]}}}}\n")
    ann("sweep", "sojourn.yaml", "--slots", "4" if count < 50 else "8")
    (made,) = cluster.store.all("jobs")
    assert made["spec"]["completions"] == count and made["spec"]["completionMode"] == "Indexed"

    def ended() -> Any:
        status = cluster.store.get("jobs", "ml", made["metadata"]["name"])["status"]
        return [one for one in status.get("conditions", ()) if one["type"] == "Failed"]

    until(ended, 60 + 4 * count)
    before = len(cluster.calls)
    rows = ann("status", "--all", "--json", rc=None)["runs"]
    asked = [call for call in cluster.calls[before:] if call.startswith(("GET", "POST"))]
    assert len(asked) <= 10, asked  # whatever the number of cells
    states = {row["id"]: row["state"] for row in rows}
    assert len(states) == count and sorted(states.values()) == ["failed"] * bad + ["succeeded"] * (count - bad)
    said = ann("reconcile", "a", "--json", rc=1)
    names = {one if isinstance(one, str) else one.get("run") or one["id"] for one in said["failed"]}
    assert names == {run for run, state in states.items() if state == "failed"}
