"""`leases --audit` of a namespace: what is ours, what a release left behind, and what nobody here knows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.kube import names, reader
from sojourn.backends.launcher import k8s_job
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Place, Site
from tests.kube.cluster import Cluster, until
from tests.person import ROOT, Person

SITE = Site("lab", "kube", "k8s_job", address="lab/ml", base="/mnt/sojourn")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.node("n1")
        cluster.claim("sojourn")
        cluster.claim("others")
        cluster.nodes.images += (reader.IMAGE,)
        yield cluster


@pytest.mark.campaign
def test_orphans_of_a_namespace_are_found_and_what_is_ours_is_ours(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = Person(tmp_path, "ann", ROOT / "src", "k8s:lab/ml", "")
    ann.env["KUBECONFIG"] = str(cluster.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    (ann.project / "sojourn.yaml").write_text(f"name: a\nsite: {ann.site}\nrun: sleep 300\n")
    ann("run")
    launcher, place = k8s_job.Backend(SITE), Place(SITE)
    strange = launcher.start(place, ["sh", "-c", "sleep 300", "x"], "/mnt/sojourn/runs/elsewhere", LaunchRequest())
    assert isinstance(strange, Handle)
    said = ann("leases", "--audit", "--json", rc=10)
    rows = {(one["kind"], one["name"]): one for one in said["assets"]}
    (ours,) = (one for one in said["assets"] if one["kind"] == "job" and one["verdict"] == "ours")
    assert ours["state"] == "active" and ours["lease"] == "k8s:lab/ml"
    assert rows["job", "elsewhere"]["verdict"] == "not-ours"
    assert rows["job", "elsewhere"]["next"] == "sojourn recover k8s:lab/ml"  # it runs: somebody's work
    claim = rows["claim", "holds runs, 10Gi"]
    assert (claim["native"], claim["state"], claim["next"]) == ("sojourn", "bound", None)
    assert not any(one["native"] == "others" for one in said["assets"]), "a claim that nothing of ours uses"

    until(lambda: [one for one in cluster.pods(f"job-name={strange.native}") if one["status"]["phase"] == "Running"])
    cluster.kubectl("delete", "job", strange.native, "--cascade=orphan")
    with cluster.store.lock:
        (pod,) = cluster.pods(f"job-name={strange.native}")
        cluster.nodes.end(pod)

    def orphan() -> Any:
        found = ann("leases", "--audit", "--json", rc=10)["assets"]
        return [one for one in found if one["name"] == "its job is gone" and one["state"] == "failed"]

    (row,) = until(orphan)
    assert row["verdict"] == "not-ours"
    assert row["next"] == f"kubectl --context lab -n ml delete pod {pod['metadata']['name']}"
    assert "holds runs, 10Gi" in ann("leases", "--audit", rc=10).stdout


def test_a_job_that_is_over_is_told_from_one_that_was_left_by_a_release(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    launcher, place = k8s_job.Backend(SITE), Place(SITE)
    root = "/mnt/sojourn/runs/a"
    handle = launcher.start(place, ["false"], root, LaunchRequest())
    assert isinstance(handle, Handle)

    def ended() -> Any:
        return [one for one in launcher.kept(place, [handle]).assets if one.state == "failed"]  # type: ignore[union-attr]

    (job,) = until(ended)
    assert job.of == (handle.native,) and job.command.endswith(f"delete job {handle.native} --cascade=foreground")
    stranger = Handle("k8s_job", "x-1", {"root": "/mnt/sojourn/runs/b"})
    assert [one.of for one in launcher.kept(place, [stranger]).assets if one.kind == "job"] == [()]  # type: ignore[union-attr]
    cluster.tokens.clear()
    assert names.OURS and getattr(launcher.kept(place, []), "kind", "") == "auth"
