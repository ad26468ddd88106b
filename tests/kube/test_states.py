"""What the cluster says becomes our words: evictions, lost nodes, memory, quota, images, rights."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from sojourn.backends.kube import foresight, gpus, manifest, names, reader
from sojourn.backends.kube.podspec import overlaid
from sojourn.backends.launcher import k8s_job
from sojourn.backends.transport import kube
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import NoAnswer, Place, Pulse, Site, State
from tests.kube.cluster import Cluster, until
from tests.person import ROOT

SITE = Site("lab", "kube", "k8s_job", address="lab/ml", base="/mnt/sojourn")
PLACE = Place(SITE)
LONG = ["sh", "-c", "sleep 300", "sojourn"]
RUNS = "app.kubernetes.io/component=run"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        for name, labels in (("n1", {}), ("n2", {"nvidia.com/gpu.product": "NVIDIA-L4"})):
            cluster.node(name, gpus=len(labels), **labels)
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster


def begun(cluster: Cluster, site: Site = SITE, argv: list[str] = LONG, **spec: Any) -> Handle:
    handle = k8s_job.Backend(site).start(Place(site), argv, "/mnt/sojourn/runs/a", LaunchRequest(spec))  # type: ignore[arg-type]
    assert isinstance(handle, Handle)
    return handle


def pod(cluster: Cluster) -> Any:
    return until(lambda: [one for one in cluster.pods(RUNS) if one["status"]["phase"] == "Running"])[-1]


def status(handle: Handle) -> Any:
    return k8s_job.Backend(SITE).states(PLACE, [handle])[0]


def seats(cluster: Cluster, handle: Handle) -> set[str]:
    folder = cluster.nodes.claim("ml", "sojourn") / "runs/a/exits" / f"{handle.native}.seats"
    return {one.name for one in folder.glob("*")}


def test_an_eviction_is_made_good_in_another_seat(cluster: Cluster) -> None:
    handle = begun(cluster)
    first = pod(cluster)
    cluster.evict(first, grace_s=1)
    until(lambda: pod(cluster)["metadata"]["name"] != first["metadata"]["name"])
    until(lambda: seats(cluster, handle) == {"0", "1"})
    assert status(handle).pulse is Pulse.ALIVE
    job = cluster.store.get("jobs", "ml", handle.native)
    assert not job["status"].get("failed"), "an eviction is no failure"


def test_a_node_that_does_not_answer_is_unknown_and_no_second_pod_is_made_before_it_is_gone(cluster: Cluster) -> None:
    handle = begun(cluster)
    first = pod(cluster)
    node = first["spec"]["nodeName"]
    cluster.lose(node)
    said = until(lambda: (word := status(handle)).pulse is Pulse.UNKNOWN and word)
    assert f"node {node} does not answer the cluster" in said.reason
    assert len(cluster.pods(RUNS)) == 1
    cluster.forget(node)
    until(lambda: [one for one in cluster.pods(RUNS) if one["metadata"]["name"] != first["metadata"]["name"]])
    until(lambda: seats(cluster, handle) == {"0", "1"})
    assert status(handle).pulse is Pulse.ALIVE


def test_without_the_right_to_look_at_nodes_a_lost_one_is_unknown_too(cluster: Cluster) -> None:
    cluster.denied["ann"] = {"list nodes"}
    handle = begun(cluster)
    cluster.lose(pod(cluster)["spec"]["nodeName"])
    assert "you may not look at nodes" in until(lambda: (w := status(handle)).pulse is Pulse.UNKNOWN and w).reason


def test_memory_and_a_deleted_job_are_told_apart(cluster: Cluster) -> None:
    handle = begun(cluster)
    with cluster.store.lock:
        cluster.nodes.end(pod(cluster), reason="OOMKilled")
    said = until(lambda: (word := status(handle)).pulse is Pulse.GONE and word)
    assert said.state is State.OOM and "request more with `memory`" in said.reason
    again = begun(cluster)
    assert again.native != handle.native
    pod(cluster)
    cluster.kubectl("delete", "job", again.native, "--cascade=foreground")
    said = until(lambda: (word := status(again)).pulse is Pulse.GONE and word)
    assert said.state is None and "somebody deleted it" in said.reason


def test_a_pod_of_a_job_that_was_deleted_alone_still_counts_as_alive(cluster: Cluster) -> None:
    handle = begun(cluster)
    pod(cluster)
    cluster.kubectl("delete", "job", handle.native, "--cascade=orphan")
    assert status(handle).pulse is Pulse.ALIVE
    assert k8s_job.Backend(SITE).cancel(PLACE, [handle]) is None
    assert status(handle).pulse is Pulse.GONE and not cluster.pods(RUNS)


@pytest.mark.parametrize("what, says", [
    ("image", "its image cannot be pulled (none:1)"),
    ("quota", "the cluster refuses to create its pod: exceeded quota: q"),
    ("gpus", "no node has enough free GPUs of that kind: 0/2 nodes are available"),
    ("zone", "its claim lies in a zone in which no fitting node is"),
])  # fmt: skip
def test_why_a_run_waits_is_said_in_a_line(cluster: Cluster, what: str, says: str) -> None:
    options: dict[str, Any] = {"image": "none:1"} if what == "image" else {}
    spec: dict[str, Any] = {"resources": {"accelerators": ["gpu:3"]}} if what == "gpus" else {}
    if what == "quota":
        value = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
        cluster.store.create("resourcequotas", "ml", value)
    if what == "zone":
        there = ("persistentvolumeclaims", "ml", "sojourn")
        cluster.store.change(*there, lambda it: it["metadata"].update(annotations={"standin/zone": "far"}))
    handle = begun(cluster, Site("lab", "kube", "k8s_job", address="lab/ml", options={"k8s_job": options}), **spec)
    said = until(lambda: (word := status(handle)).is_waiting and says in word.reason and word)
    assert "\n" not in said.reason and len(said.reason) < 500


def test_a_gpu_that_no_node_has_is_refused_in_a_line(cluster: Cluster) -> None:
    with pytest.raises(gpus.NoSuchGpu, match="No node of lab has a GPU H100; its nodes have: NVIDIA-L4"):
        begun(cluster, resources={"accelerators": ["H100:1"]})
    begun(cluster, resources={"accelerators": ["L4:1"]})
    assert pod(cluster)["spec"]["nodeName"] == "n2"
    cluster.denied["ann"] = {"list nodes"}
    order = LaunchRequest({"resources": {"accelerators": ["H100:1"]}})
    with pytest.raises(names.BadPodSetting, match="set `gpus.H100`"):
        k8s_job.Backend(SITE).start(PLACE, LONG, "/mnt/sojourn/runs/b", order)


def test_a_plan_says_what_the_cluster_has_against_it_and_leaves_nothing(cluster: Cluster) -> None:
    launcher = k8s_job.Backend(SITE)
    script = launcher.script(LONG, "/mnt/sojourn/runs/a", LaunchRequest())
    trial = launcher.try_out(PLACE, script)
    assert not isinstance(trial, NoAnswer) and trial.is_taken
    assert "no quota in this namespace" in trial.said and "2 of 2 nodes are large enough" in trial.said
    value = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    cluster.store.create("resourcequotas", "ml", value)
    trial = launcher.try_out(PLACE, script)
    assert not isinstance(trial, NoAnswer) and not trial.is_taken and "exceeded quota: q" in trial.said
    assert not cluster.store.all("jobs") and not cluster.pods(RUNS)


def test_the_right_that_is_missing_is_named_before_anything_starts(cluster: Cluster) -> None:
    launcher = k8s_job.Backend(SITE)
    assert launcher.check(PLACE) is None
    cluster.denied["ann"] = {"create jobs"}
    missing = launcher.check(PLACE)
    assert missing is not None and "does not allow you to create jobs in namespace ml" in missing.message
    assert missing.next.endswith("create role sojourn-create-jobs --verb=create --resource=jobs.batch")
    with pytest.raises(type(missing), match="does not allow you to create jobs"):
        launcher.start(PLACE, LONG, "/mnt/sojourn/runs/a")


@pytest.mark.parametrize("version", ["1.30", "1.32", "1.34", "1.37"])
def test_manifests_are_valid_for_the_oldest_and_the_newest_server(version: str) -> None:
    options = {"shm": "8Gi", "priority_class": "low", "tolerations": [{"key": "k", "operator": "Exists"}],
               "service_account": "me", "pull_secrets": ["s"], "node_selector": {"a": "b"}, "queue": "q",
               "pod": {"hostIPC": False, "container": {"securityContext": {"runAsUser": 1000}}}}  # fmt: skip
    site = Site("lab", "kube", "k8s_job", address="lab/ml", options={"k8s_job": options})
    order = LaunchRequest({"resources": {"accelerators": ["A100:2"], "cpus": "4+", "memory": "16"}}, write_s=100.0)
    one = manifest.job(site, "/mnt/sojourn/runs/a", "a-1", LONG, order, {"nodeSelector": {"x": "y"}})
    many = manifest.cells(site, "/mnt/sojourn/runs", "/mnt/sojourn/q/1.cells", "s-1", LONG, (200, 4), order, {})
    for value in (one, many, reader.manifest(site)):
        kubernetes_validate.validate(value, version, strict=True)
    container = one["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "4", "memory": "16384Mi"},
                                      "limits": {"memory": "16384Mi", "nvidia.com/gpu": "2"}}  # fmt: skip
    assert one["spec"]["template"]["spec"]["nodeSelector"] == {"x": "y", "a": "b"}
    assert one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 203
    assert "ttlSecondsAfterFinished" not in one["spec"]
    assert all(len(name) <= 52 for name in (names.as_dns("x" * 90), reader.name(site)))


@pytest.mark.parametrize("own, says", [
    ({"restartPolicy": "Always"}, "pod.restartPolicy cannot be set here"),
    ({"container": {"command": ["x"]}}, "pod.container.command cannot be set here"),
    (["x"], "write fields of a pod"),
])  # fmt: skip
def test_fields_that_the_launcher_needs_are_its_own(own: Any, says: str) -> None:
    with pytest.raises(names.BadPodSetting, match=re.escape(says)):
        overlaid({"containers": [{"name": "train"}]}, own, "lab", "pod")


def test_what_would_end_with_the_pod_is_refused() -> None:
    site = Site("lab", "kube", "k8s_job", address="lab/ml", base="/home/me")
    with pytest.raises(names.OffClaim, match="base /home/me is not below /mnt/sojourn"):
        manifest.job(site, "/home/me/runs/a", "a-1", LONG, LaunchRequest(), {})


def test_the_role_of_the_page_is_what_is_used_and_valid() -> None:
    page = (ROOT / "docs/kubernetes.md").read_text()
    claim, _, role = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.S))
    kubernetes_validate.validate(claim, "1.30", strict=True)
    kubernetes_validate.validate(role, "1.30", strict=True)
    granted = {(verb, group, resource) for rule in role["rules"] for verb in rule["verbs"]
               for group in rule["apiGroups"] for resource in rule["resources"]}  # fmt: skip
    assert granted == set(foresight.RIGHTS)
    assert claim["metadata"]["name"] == names.CLAIM


def test_the_role_of_the_page_is_enough(cluster: Cluster) -> None:
    """Every other verb on every kind is denied, and a Job comes and goes."""
    kinds = ["jobs", "pods", "pods/exec", "pods/log", "events", "persistentvolumeclaims", "resourcequotas", "nodes",
             "secrets", "services", "namespaces"]  # fmt: skip
    verbs = ["create", "get", "list", "watch", "update", "patch", "delete"]
    granted = {f"{verb} {resource}" for verb, _, resource in foresight.RIGHTS}
    cluster.denied["ann"] = {f"{verb} {kind}" for kind in kinds for verb in verbs} - granted
    handle = begun(cluster)
    pod(cluster)
    assert not isinstance(kube.Backend(PLACE).call(["true"]), NoAnswer)
    assert status(handle).pulse is Pulse.ALIVE
    assert handle.native in str(k8s_job.Backend(SITE).records(PLACE, handle, "/mnt/sojourn/runs/a"))
    assert k8s_job.Backend(SITE).stop(PLACE, handle, 1.0) is None
    said = k8s_job.Backend(SITE).tidy(PLACE, [handle])
    assert isinstance(said, str) and "no pod of theirs is left; claim sojourn (10Gi) stays" in said
