"""The first example on the stand-in, by nothing but `k8s:CONTEXT/NAMESPACE`: kills, resume, pull, verify, down."""

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
        cluster.node("n2")
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        yield cluster


def person(tmp_path: Path, cluster: Cluster) -> Person:
    ann = Person(tmp_path, "ann", ROOT / "src", "k8s:lab/ml", "")
    ann.env["KUBECONFIG"] = str(cluster.kubeconfig)
    return ann


def running(cluster: Cluster) -> Any:
    """The pod that trains now."""
    return until(lambda: [pod for pod in cluster.pods(RUNS) if pod["status"]["phase"] == "Running"], 30)[0]


@pytest.mark.campaign
def test_digits_with_both_kills(tmp_path: Path, cluster: Cluster) -> None:
    ann, claim = person(tmp_path, cluster), cluster.nodes.claim("ml", "sojourn")
    ann.job(epochs=12)
    ann("run")
    ann.until("running")
    ann.until_saved(claim)
    cluster.nodes.end(running(cluster))
    assert ann.until("killed")["state"] == "killed"
    ann("resume", "digits")
    ann.until("running")
    pid = "sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' /mnt/sojourn/runs/digits/keeper.json"
    cluster.kubectl("exec", running(cluster)["metadata"]["name"], "--", "sh", "-c", f"kill -KILL $({pid})")
    until(lambda: not [pod for pod in cluster.pods(RUNS) if pod["status"]["phase"] == "Running"], 90)
    ann.until("succeeded")
    assert ann.row()["attempt"] == 2, "its keeper was taken back in, and the process lived on"
    ann("down", "k8s:lab/ml", "--confirm", "k8s:lab/ml", rc=4)
    ann.fetched()
    said = ann("down", "k8s:lab/ml", "--confirm", "k8s:lab/ml").stdout
    said = " ".join(said.split())
    assert "2 finished Jobs deleted, no pod of theirs is left; claim sojourn (10Gi) stays" in said
    assert not cluster.pods() and not cluster.store.all("jobs", "ml")
    assert [one["metadata"]["name"] for one in cluster.store.all("persistentvolumeclaims")] == ["sojourn"]
