"""Clusters with rules of their own: restricted namespaces, claims of one node, reserved nodes, fixed images."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from sojourn.backends.kube import api as kube_api
from sojourn.backends.kube import attached, foresight, manifest, reader, security
from sojourn.backends.kube.names import BadPodSetting, claim_label
from sojourn.backends.launcher import k8s_job
from sojourn.backends.transport import kube
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site
from tests.kube.cluster import Cluster, until
from tests.kube.pods import ROOTLESS
from tests.kube.test_standin import recorded

USER = 1234
LONG = ["sh", "-c", "sleep 300", "sojourn"]
RUNS = "app.kubernetes.io/component=run"


def lab(**options: Any) -> Site:
    mine = {key: options.pop(key) for key in ("image", "tolerations", "pod") if key in options}
    return Site("lab", "kube", "k8s_job", address="lab/ml", options={"kube": options, "k8s_job": mine})


def begun(site: Site, argv: list[str] = LONG, run: str = "a") -> Handle:
    said = k8s_job.Backend(site).start(Place(site), argv, f"/mnt/sojourn/runs/{run}", LaunchRequest())
    assert isinstance(said, Handle)
    return said


def call(site: Site, *argv: str) -> Ended:
    said = kube.Backend(Place(site)).call(argv)
    assert isinstance(said, Ended), said
    return said


def running(cluster: Cluster, labels: str = RUNS) -> Any:
    return until(lambda: [one for one in cluster.pods(labels) if one["status"]["phase"] == "Running"])[-1]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.node("n1")
        cluster.nodes.images += (reader.IMAGE,)
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster


@pytest.fixture
def restricted(cluster: Cluster) -> Cluster:
    cluster.claim("sojourn")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.store.change("namespaces", "", "ml", lambda it: it["metadata"].update(labels=labels))
    return cluster


def test_a_restricted_namespace_is_refused_with_the_setting_that_it_needs(restricted: Cluster) -> None:
    with pytest.raises(reader.ReaderRefused, match='violates PodSecurity "restricted:latest"') as caught:
        kube.Backend(Place(lab())).call(["true"])
    assert "set `user = 1000` in [sites.lab.kube]" in caught.value.next
    launcher = k8s_job.Backend(lab())
    script = launcher.script(LONG, "/mnt/sojourn/runs/a", LaunchRequest())
    trial = launcher.try_out(Place(lab()), script)
    assert not isinstance(trial, NoAnswer) and not trial.is_taken and "set `user = 1000`" in trial.hint


def test_all_pods_of_a_site_are_its_user_and_share_their_files(restricted: Cluster) -> None:
    site = lab(user=USER)
    call(site, "mkdir", "-m", "700", "-p", "/mnt/sojourn/runs/a")
    begun(site, ["sh", "-c", 'id -u >"$1/who"; echo "$HOME $USER" >"$1/home"; sleep 300', "sh", "/mnt/sojourn/runs/a"])
    running(restricted)
    there = restricted.nodes.claim("ml", "sojourn") / "runs/a"
    until((there / "home").exists)
    if not ROOTLESS:  # only root can become somebody else
        assert (there / "who").read_text().strip() == str(USER)
        until(lambda: (there / "home").read_text() == "/mnt/sojourn sojourn\n")
        assert call(site, "id", "-u").stdout.strip() == str(USER).encode()
    assert call(site, "cat", "/mnt/sojourn/runs/a/home").rc == 0


@pytest.mark.parametrize("user", [0, "root", True, -1])
def test_a_user_that_is_root_or_no_number_is_refused(user: Any) -> None:
    with pytest.raises(BadPodSetting, match="is not the number of a user other than root"):
        security.user_of(lab(user=user))


def test_the_restricted_level_of_the_standin_speaks_as_recorded() -> None:
    from tests.kube import admission
    from tests.kube.store import Store

    store = Store()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    store.create("namespaces", "", {"metadata": {"name": "rec", "labels": labels}})
    said = recorded("40")["response"]["message"]
    body = recorded("40")["request"]["body"]
    assert said.endswith(admission.check_pod_security(store, "rec", body))
    for made in (reader.manifest(lab(user=1)), manifest.job(
        lab(user=1), "/mnt/sojourn/runs/a", "a-1", LONG, LaunchRequest(), {})["spec"]["template"]):  # fmt: skip
        assert admission.check_pod_security(store, "rec", made) == ""
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **made}, "1.36", strict=True)


def test_an_image_that_may_not_be_written_gets_a_tmp(cluster: Cluster) -> None:
    cluster.claim("sojourn")
    own = {"container": {"securityContext": {"readOnlyRootFilesystem": True}}}
    site = lab(reader_pod=own, pod=own)
    said = call(site, "sh", "-c", "touch /tmp/mine && touch /mine")
    assert b"Read-only" in said.stderr and b"/tmp/mine" not in said.stderr
    begun(site, ["sh", "-c", 'touch /tmp/x && echo ok >"$1/ok"; sleep 300', "sh", "/mnt/sojourn/runs/a"])
    until((cluster.nodes.claim("ml", "sojourn") / "runs/a/ok").exists)


def test_a_command_runs_where_nothing_at_all_may_be_written(cluster: Cluster) -> None:
    import subprocess

    ran = subprocess.run(["sh", "-c", reader.CALLED, "sojourn", "echo", "ran"],
                         env={"PATH": "/usr/bin:/bin", "TMPDIR": "/nowhere"}, capture_output=True)  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"ran\n", b"")


def test_a_reader_gives_way_to_a_run_on_another_node_and_follows_it(cluster: Cluster) -> None:
    cluster.claim("sojourn", mode="ReadWriteOnce")
    site = lab(tolerations=[{"key": "gpu", "operator": "Exists"}], pod={"nodeSelector": {"pool": "gpu"}})
    assert call(site, "hostname").rc == 0
    cluster.node("n2", pool="gpu")
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cluster.store.change("nodes", "", "n2", lambda it: it["spec"].update(taints=[taint]))
    handle = begun(site)
    until(lambda: [one for one in cluster.pods(RUNS) if one["spec"].get("nodeName") == "n2"])
    launcher = k8s_job.Backend(site)
    until(lambda: not launcher.states(Place(site), [handle])[0].is_waiting)
    assert running(cluster)["spec"]["nodeName"] == "n2"
    assert call(site, "true").rc == 0
    (pod,) = cluster.pods("app.kubernetes.io/component=reader")
    assert pod["spec"]["nodeName"] == "n2"
    assert launcher.states(Place(site), [handle])[0].pulse is Pulse.ALIVE


def test_a_claim_for_one_pod_is_refused(cluster: Cluster) -> None:
    cluster.claim("sojourn", mode="ReadWriteOncePod")
    with pytest.raises(reader.ClaimForOnePod, match="claim sojourn is ReadWriteOncePod"):
        kube.Backend(Place(lab())).call(["true"])


def test_a_namespace_that_is_not_there_is_named(cluster: Cluster) -> None:
    site = Site("lab", "kube", "k8s_job", address="lab/elsewhere")
    with pytest.raises(reader.NoNamespace, match="lab: lab has no namespace elsewhere"):
        kube.Backend(Place(site)).call(["true"])


def test_nodes_that_let_the_pod_in_are_told_from_those_that_do_not(cluster: Cluster) -> None:
    cluster.claim("sojourn")
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cluster.store.change("nodes", "", "n1", lambda it: it["spec"].update(taints=[taint]))
    tolerant = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    cases: list[tuple[dict[str, Any], str]] = [({}, "none lets this pod in: it is tainted gpu=yes")]
    for more, says in (*cases, (tolerant, "1 of 1 nodes are large")):
        launcher = k8s_job.Backend(lab(**more))
        trial = launcher.try_out(Place(lab(**more)), launcher.script(LONG, "/mnt/sojourn/runs/a", LaunchRequest()))
        assert not isinstance(trial, NoAnswer) and says in trial.said


def test_a_reader_that_a_lost_node_does_not_let_go_is_replaced(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STUCK_S", 0.5)
    cluster.claim("sojourn")
    assert call(lab(), "true").rc == 0
    cluster.node("n2")
    cluster.lose("n1")
    kube._known.clear()
    assert call(lab(), "true").rc == 0
    assert running(cluster, "app.kubernetes.io/component=reader")["spec"]["nodeName"] == "n2"


def test_a_node_that_is_not_reached_ran_nothing(cluster: Cluster) -> None:
    """The server upgrades the connection first and says so afterwards."""
    cluster.claim("sojourn")
    assert call(lab(), "true").rc == 0
    with cluster.store.lock:
        cluster.nodes.lost.add("n1")
    said = kube.Backend(Place(lab())).call(["true"])
    assert isinstance(said, NoAnswer) and not said.sent and "error dialing backend" in said.detail


def test_a_container_that_has_gone_is_replaced_and_the_command_runs_once(cluster: Cluster) -> None:
    folder = cluster.claim("sojourn")
    assert call(lab(), "true").rc == 0
    pod = running(cluster, "app.kubernetes.io/component=reader")
    with cluster.store.lock:
        cluster.is_frozen = True  # the kubelet has not told yet
        cluster.nodes.end(pod)
        process = cluster.nodes.running[pod["metadata"]["uid"]]
        process.child.wait()
    import threading

    threading.Timer(0.3, lambda: setattr(cluster, "is_frozen", False)).start()
    assert call(lab(), "sh", "-c", "echo x >>/mnt/sojourn/count").rc == 0
    assert (folder / "count").read_text() == "x\n"


def test_a_list_whose_next_page_was_forgotten_is_asked_for_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_api, "PAGE", 2)
    for number in range(5):
        cluster.claim(f"c{number}")
    forgotten: list[str] = []

    def fault(method: str, path: str) -> None:
        if "continue" in path and not forgotten:
            forgotten.append(path)
            cluster.store.version += 1
            cluster.store.forget()

    cluster.faults.append(fault)
    api = kube_api.of_site(lab(), "lab/ml")
    found = api.listed(api.path("persistentvolumeclaims"))
    assert forgotten and not isinstance(found, NoAnswer)
    assert [one["metadata"]["name"] for one in found] == [f"c{number}" for number in range(5)]


def test_long_names_of_claims_fit_a_label() -> None:
    assert len(claim_label(lab(claim="c" * 200))) <= 63
    assert attached.wanted_on([]) == ""


def test_rights_that_are_needed_are_all_in_the_role() -> None:
    granted = {(verb, resource) for verb, _, resource in foresight.RIGHTS}
    assert granted >= foresight.NEEDED
    assert re.search("get pods/exec", " ".join(f"{verb} {what}" for verb, what in foresight.NEEDED))
