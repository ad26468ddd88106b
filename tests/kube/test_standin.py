"""The stand-in API server is held against what a real server of 1.36.2 answered: tests/kube/recordings, row by row."""

import copy
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.cluster import Cluster, until
from tests.kube.store import stamp

RECORDINGS = Path(__file__).parent / "recordings"
# What differs from one server, and one run, to the next.
MASKS = (
    (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (r"-[a-z0-9]{5}(?=\W|$)", "-RANDOM"),
    (r"too old resource version: \d+ \(\d+\)", "too old resource version: N (N)"),
    (r"^\d+$", "N"),
)
NOT_MODELLED = {"finalizers", "imageID", "containerID", "observedGeneration", "generation"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), namespace="rec") as cluster:
        cluster.node("gpu-1", pool="real")
        cluster.node("gpu-2")
        yield cluster


def recorded(number: str) -> dict[str, Any]:
    (file,) = RECORDINGS.glob(f"{number}-*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def send(cluster: Cluster, method: str, path: str, body: Any = None, token: str = "token-of-ann") -> Any:
    """(status, headers, answer)."""
    context = ssl.create_default_context(cadata=cluster.authority.decode())
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(cluster.url + path.replace(" ", "%20"), data, method=method)
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as said:
            text, status, headers = said.read().decode(), said.status, said.headers
    except urllib.error.HTTPError as error:
        text, status, headers = error.read().decode(), error.code, error.headers
    return status, headers, json.loads(text) if text[:1] in "{[" else text


def replay(cluster: Cluster, number: str, **how: str) -> None:
    """The recorded request again: status, warning and answer are the recorded ones."""
    there = recorded(number)
    asked = there["request"]
    status, headers, answer = send(cluster, asked["method"], asked["path"], asked["body"], **how)
    assert status == there["status"], answer
    assert (headers.get("Warning") or None) == there.get("headers", {}).get("Warning")
    assert masked(answer) == masked(there["response"])


def masked(value: Any) -> Any:
    if isinstance(value, dict):
        out = {key: masked(one) for key, one in value.items() if key not in NOT_MODELLED and key != "uid"}
        return {key: one for key, one in out.items() if one not in ({}, [], None)}
    if isinstance(value, list):
        return [masked(one) for one in value]
    if isinstance(value, str):
        for pattern, word in MASKS:
            value = re.sub(pattern, word, value)
    return value


def post_again(cluster: Cluster, number: str, **spec: Any) -> str:
    """The Job that was watched there; its name."""
    job = copy.deepcopy(recorded(number)["events"][0]["object"])
    fields = {key: one for key, one in job["spec"].items() if key not in ("selector", "manualSelector")}
    del fields["template"]["metadata"]
    body = {"metadata": {"name": job["metadata"]["name"]}, "spec": {**fields, **spec}}
    status, _, answer = send(cluster, "POST", "/apis/batch/v1/namespaces/rec/jobs", body)
    assert status == 201, answer
    return str(job["metadata"]["name"])


def the_job(cluster: Cluster, name: str) -> Any:
    return cluster.store.get("jobs", "rec", name)


def is_over(cluster: Cluster, name: str) -> Any:
    ends = the_job(cluster, name)["status"].get("conditions", ())
    return [one for one in ends if one["type"] in ("Complete", "Failed")]


def test_the_version(cluster: Cluster) -> None:
    replay(cluster, "01")


@pytest.mark.parametrize("number", ["04", "05", "06", "09", "15"])
def test_requests_that_need_nothing_before_them(cluster: Cluster, number: str) -> None:
    if number == "05":  # what it keeps of the manifest is compared with 02
        there = recorded(number)
        status, headers, _ = send(cluster, "POST", there["request"]["path"], there["request"]["body"])
        assert (status, headers["Warning"]) == (201, there["headers"]["Warning"])
        return
    replay(cluster, number)


def test_who_may_what(cluster: Cluster) -> None:
    cluster.tokens["alices"] = "alice"
    cluster.denied["alice"] = {"create jobs", "create pods/exec"}
    replay(cluster, "07", token="alices")
    replay(cluster, "08", token="nobodys")
    replay(cluster, "10", token="alices")


def test_a_job_from_its_creation_to_its_end(cluster: Cluster) -> None:
    replay(cluster, "02")
    replay(cluster, "03")
    until(lambda: is_over(cluster, "ok"))
    now, then = the_job(cluster, "ok")["status"], recorded("13")["response"]["status"]
    assert masked(shape(now)) == masked(shape(then))
    pod = cluster.pods("job-name=ok")[0]["metadata"]["name"]
    status, _, text = send(cluster, "GET", f"/api/v1/namespaces/rec/pods/{pod}/log?timestamps=true&tailLines=5")
    form = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z idx 0\n"
    assert status == 200 and re.fullmatch(form, text) and re.fullmatch(form, recorded("14")["response"])
    status, _, no = send(cluster, "GET", f"/api/v1/namespaces/rec/pods/{pod}/log?container=zz")
    then = recorded("16")["response"]
    assert status == 400 and masked(no) == masked(then)
    stale = recorded("17")
    body = the_job(cluster, "ok")
    body["metadata"]["resourceVersion"] = "1"
    status, _, no = send(cluster, "PUT", stale["request"]["path"], body)
    assert status == stale["status"] == 409 and masked(no) == masked(stale["response"])


def shape(status: dict[str, Any]) -> dict[str, Any]:
    """Of a Job's status: its counts, and type, reason and message of its conditions."""
    rows = [{key: one.get(key) for key in ("type", "status", "reason", "message")} for one in status["conditions"]]
    rest = {key: value for key, value in status.items() if key not in ("conditions", "startTime", "completionTime")}
    return {**rest, "conditions": rows}


@pytest.mark.parametrize("number", ["18", "20", "22", "26"])
def test_how_jobs_fail(cluster: Cluster, number: str) -> None:
    name = post_again(cluster, number)
    if number == "22":  # no kernel looks at a limit here
        pod = until(lambda: [one for one in cluster.pods("job-name=f3") if one["status"]["phase"] == "Running"])[0]
        with cluster.store.lock:
            cluster.nodes.end(pod, reason="OOMKilled")
    until(lambda: is_over(cluster, name))
    now, then = the_job(cluster, name)["status"], recorded(number)["events"][-1]["object"]["status"]
    assert masked(shape(now)) == masked(shape(then))
    if number == "22":
        ended = recorded("23")["response"]["items"][0]["status"]["containerStatuses"][0]["state"]["terminated"]
        (pod,) = cluster.pods("job-name=f3")
        mine = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (mine["reason"], mine["exitCode"]) == (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_deadline_takes_the_pods_and_their_logs(cluster: Cluster) -> None:
    name = post_again(cluster, "24", activeDeadlineSeconds=1)
    until(lambda: is_over(cluster, name))
    then = recorded("24")["events"][-1]["object"]["status"]["conditions"]
    now = the_job(cluster, name)["status"]["conditions"]
    assert [(one["type"], one["reason"]) for one in now] == [(one["type"], one["reason"]) for one in then]
    assert cluster.pods(f"job-name={name}") == recorded("25")["response"]["items"] == []


@pytest.mark.parametrize("number, name, change", [
    ("28", "p1", {"image": "registry.invalid/none:1"}),
    ("29", "p2", {"resources": {"limits": {"nvidia.com/gpu": "64"}}}),
    ("30", "p3", {}),
    ("31", "p4", {}),
    ("32", "p5", {"env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}}]}),
])  # fmt: skip
def test_why_pods_wait(cluster: Cluster, number: str, name: str, change: dict[str, Any]) -> None:
    container = {"name": "train", "image": "local/train:1", "command": ["true"], **change}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"pool": "real"}}
    if number == "30":
        spec["nodeSelector"] = {"pool": "none"}
    if number == "31":
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]
    body = {"metadata": {"name": name}, "spec": {"completionMode": "Indexed", "completions": 1,
            "template": {"spec": spec}}}  # fmt: skip
    assert send(cluster, "POST", "/apis/batch/v1/namespaces/rec/jobs", body)[0] == 201
    then = recorded(number)["response"]["items"][0]["status"]

    def why(status: dict[str, Any]) -> Any:
        waits = [one["state"]["waiting"]["reason"] for one in status.get("containerStatuses", ())]
        no = [one["message"] for one in status["conditions"] if one["type"] == "PodScheduled" and "message" in one]
        return waits, no, status["phase"]

    pod = until(lambda: [one for one in cluster.pods(f"job-name={name}") if one["status"].get("conditions")
                         and (one["status"].get("containerStatuses") or number in ("29", "30", "31"))])[0]  # fmt: skip
    mine, theirs = why(pod["status"]), why(then)
    if number == "28":
        assert mine[0][0] in ("ErrImagePull", "ImagePullBackOff") and theirs[0] == ["ErrImagePull"]
        path = f"/api/v1/namespaces/rec/pods/{pod['metadata']['name']}"
        status, _, no = send(cluster, "GET", f"{path}/log")
        assert status == recorded("33")["status"] == 400 and "is waiting to start: " in no["message"]
        status, _, no = send(cluster, "GET", f"{path}/exec?command=true&stdout=1")
        assert status == recorded("34")["status"] and masked(no) == masked(recorded("34")["response"])
    else:
        assert mine == theirs
    assert the_job(cluster, name)["status"]["active"] == 1
    cluster.kubectl("delete", "job", name, "--wait=false")


def test_a_quota_that_is_used_up(cluster: Cluster) -> None:
    value = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}, "status": {"standin": 99.0}}
    cluster.store.create("resourcequotas", "rec", value)
    try:
        replay(cluster, "38")
        asked = recorded("38")["request"]["body"]["spec"]["containers"][0]
        body = {"metadata": {"name": "q1"}, "spec": {"completionMode": "Indexed", "completions": 1, "template": {
            "spec": {"restartPolicy": "Never", "containers": [asked]}}}}  # fmt: skip
        assert send(cluster, "POST", "/apis/batch/v1/namespaces/rec/jobs", body)[0] == recorded("36")["status"] + 1
        path = recorded("37")["request"]["path"]
        said = until(lambda: send(cluster, "GET", path)[2]["items"])
        then = recorded("37")["response"]["items"][0]
        keys = ("reason", "message", "type", "source", "reportingComponent")
        assert masked({key: said[0][key] for key in keys}) == masked({key: then[key] for key in keys})
        assert not cluster.pods("job-name=q1") and "active" not in the_job(cluster, "q1")["status"]
    finally:
        cluster.store.remove("resourcequotas", "rec", "q")
        cluster.kubectl("delete", "job", "q1", "--wait=false", rc=None)


def test_pod_security_warns_of_a_job_and_refuses_its_pod(cluster: Cluster) -> None:
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.store.change("namespaces", "", "rec", lambda it: it["metadata"].update(labels=level))
    try:
        there = recorded("39")
        status, headers, _ = send(cluster, "POST", there["request"]["path"], there["request"]["body"])
        assert (status, headers["Warning"]) == (201, there["headers"]["Warning"])
        replay(cluster, "40")
    finally:
        cluster.store.change("namespaces", "", "rec", lambda it: it["metadata"].pop("labels"))


def test_a_plain_delete_of_a_job_leaves_its_pods_at_work(cluster: Cluster) -> None:
    long = recorded("41")["response"]["spec"]
    spec = {key: one for key, one in long.items() if key not in ("selector", "manualSelector")}
    del spec["template"]["metadata"]
    for name in ("d1", "d2"):
        body = {"metadata": {"name": name}, "spec": spec}
        assert send(cluster, "POST", "/apis/batch/v1/namespaces/rec/jobs", body)[0] == 201
        until(lambda: [one for one in cluster.pods(f"job-name={name}") if one["status"]["phase"] == "Running"])  # noqa: B023
    status, headers, said = send(cluster, "DELETE", recorded("41")["request"]["path"])
    assert (status, headers["Warning"]) == (200, recorded("41")["headers"]["Warning"])
    assert said["metadata"]["finalizers"] == recorded("41")["response"]["metadata"]["finalizers"]
    (left,) = until(lambda: [one for one in cluster.pods("job-name=d1") if not one["metadata"].get("ownerReferences")])
    assert left["status"]["phase"] == recorded("42")["response"]["items"][0]["status"]["phase"] == "Running"
    cluster.kubectl("delete", "pod", left["metadata"]["name"], "--grace-period=1")
    replay(cluster, "44")
    words = until(lambda: [row for row in cluster.store.log if row[2] == "pods" and row[1] == "DELETED"
                           and row[3]["metadata"]["name"].startswith("d2")])  # fmt: skip
    assert words[0][3]["status"]["phase"] == recorded("43")["events"][-1]["object"]["status"]["phase"] == "Failed"
    assert words[0][3]["metadata"]["deletionTimestamp"]


def test_a_version_that_is_forgotten_is_gone(cluster: Cluster) -> None:
    cluster.store.forget()
    said = cluster.kubectl("get", "--raw", recorded("45")["request"]["path"]).stdout
    assert masked(json.loads(said)) == masked({"type": "ERROR", "object": recorded("45")["events"][0]["object"]})


def test_kubectl_waits_for_a_job_as_for_a_real_one(cluster: Cluster) -> None:
    body = {"metadata": {"name": "w"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "local/train:1", "command": ["sh", "-c", "sleep 0.5; echo done"]}]}}}}  # fmt: skip
    assert send(cluster, "POST", "/apis/batch/v1/namespaces/rec/jobs", body)[0] == 201
    assert "condition met" in cluster.kubectl("wait", "job/w", "--for=condition=complete", "--timeout=20s").stdout
    assert cluster.kubectl("logs", "job/w").stdout == "done\n"
    assert stamp(0) == "1970-01-01T00:00:00Z"
