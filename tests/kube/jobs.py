"""The Job controller of the stand-in: makes pods, counts how they ended, applies a policy on failures, cleans up.

Each rule is one of tests/kube/recordings or of the table in tests/kube/README.md.
"""

from __future__ import annotations

import copy
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.kube import admission
from tests.kube.store import Object, Refused, Store, stamp

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Count:
    """What was counted of a Job."""

    succeeded: set[str] = field(default_factory=set)  # indexes, or names of pods
    failed: int = 0
    bad: dict[str, int] = field(default_factory=dict)  # failures of an index that count
    bad_indexes: set[str] = field(default_factory=set)
    not_before_s: float = 0.0
    deadline_s: float = 0.0


class Jobs:
    """Syncs all Jobs. `backoff_s`: until a failed pod is replaced (a real server takes about 10 s)."""

    def __init__(self, store: Store, backoff_s: float = 0.2) -> None:
        self.store, self.backoff_s = store, backoff_s
        self.counts: dict[str, Count] = {}

    def sync(self) -> None:
        """One round."""
        with self.store.lock:
            jobs = self.store.all("jobs")
            for job in jobs:
                self._job(job)
            live = {job["metadata"]["uid"] for job in self.store.all("jobs")}
            for pod in self.store.all("pods"):
                owner = owner_of(pod)
                if owner and owner not in live:  # its Job is deleted: collected, unless it was orphaned
                    self._untrack(pod)
                    self.delete_pod(pod)

    def _job(self, job: Object) -> None:
        meta, spec = job["metadata"], job["spec"]
        pods = [pod for pod in self.store.all("pods", meta["namespace"]) if owner_of(pod) == meta["uid"]]
        if "deletionTimestamp" in meta:
            self._deleting(job, pods)
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            self._finished(job)
            return
        count = self.counts.setdefault(meta["uid"], Count())
        for pod in pods:
            if TRACKING in pod["metadata"].get("finalizers", ()) and pod["status"].get("phase") in (
                "Succeeded",
                "Failed",
            ):  # noqa: E501  fmt: skip
                self._counted(job, pod, count)
        job = self.store.get("jobs", meta["namespace"], meta["name"])
        pods = [pod for pod in self.store.all("pods", meta["namespace"]) if owner_of(pod) == meta["uid"]]
        active = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        going = [pod for pod in active if "deletionTimestamp" not in pod["metadata"]]
        limit_s = spec.get("activeDeadlineSeconds")
        if limit_s and not spec["suspend"]:
            count.deadline_s = count.deadline_s or time.monotonic() + float(limit_s)
            if time.monotonic() > count.deadline_s:
                self._fail(job, "DeadlineExceeded", "Job was active longer than specified deadline")
        target = condition(self.store.get("jobs", meta["namespace"], meta["name"]), "FailureTarget")
        if target or spec["suspend"]:
            for pod in going:
                self.delete_pod(pod)
        elif len(count.succeeded) >= spec["completions"]:
            self._set(job, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
        elif spec["completionMode"] == "Indexed" and len(count.succeeded | count.bad_indexes) >= spec["completions"]:
            self._fail(job, "FailedIndexes", "Job has failed indexes")
        else:
            occupied = active if spec["podReplacementPolicy"] == "Failed" else going
            self._fill(job, count, occupied)
        self._status(meta, count)
        job = self.store.get("jobs", meta["namespace"], meta["name"])
        left = [pod for pod in self.store.all("pods", meta["namespace"]) if owner_of(pod) == meta["uid"]
                and pod["status"].get("phase") in ("Pending", "Running")]  # fmt: skip
        if left:
            return
        if (met := condition(job, "FailureTarget")) is not None:
            self._set(job, "Failed", met["reason"], met["message"])
            self.event("Warning", met["reason"], met["message"], "Job", job)
        elif (met := condition(job, "SuccessCriteriaMet")) is not None:
            self._set(job, "Complete", met["reason"], met["message"])
            self.store.change("jobs", meta["namespace"], meta["name"],
                              lambda it: it["status"].update(completionTime=stamp()))  # fmt: skip
            self.event("Normal", "Completed", "Job completed", "Job", job)

    def _fill(self, job: Object, count: Count, occupied: list[Object]) -> None:
        spec = job["spec"]
        is_indexed = spec["completionMode"] == "Indexed"
        if is_indexed:
            taken = {pod["metadata"]["labels"][INDEX] for pod in occupied} | count.succeeded | count.bad_indexes
            free = [str(n) for n in range(spec["completions"]) if str(n) not in taken]
        else:
            free = [""] * (spec["completions"] - len(count.succeeded) - len(occupied))
        room = spec["parallelism"] - len(occupied)
        if time.monotonic() < count.not_before_s:
            return
        for index in free[: max(0, room)]:
            pod = self._pod(job, index)
            name = pod["metadata"]["name"]
            try:
                admission.check_quota(self.store, job["metadata"]["namespace"], pod, name)
                if said := admission.check_pod_security(self.store, job["metadata"]["namespace"], pod):
                    text = f'pods "{name}" is forbidden: violates PodSecurity {said}'
                    raise Refused(403, "Forbidden", text)
            except Refused as no:
                self.event("Warning", "FailedCreate", f"Error creating: {no}", "Job", job)
                count.not_before_s = time.monotonic() + 1.0
                return
            self.store.create("pods", job["metadata"]["namespace"], pod)
            self.event("Normal", "SuccessfulCreate", f"Created pod: {name}", "Job", job)

    def _pod(self, job: Object, index: str) -> Object:
        name = job["metadata"]["name"]
        template = copy.deepcopy(job["spec"]["template"])
        meta = template.setdefault("metadata", {})
        begin = f"{name}-{index}-" if index else f"{name}-"
        meta.update(name=begin + uuid.uuid4().hex[:5], generateName=begin, finalizers=[TRACKING])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        meta["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        if index:
            meta.setdefault("labels", {})[INDEX] = index
            meta.setdefault("annotations", {})[INDEX] = index
            where = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in template["spec"]["containers"]:
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": where})
            template["spec"]["hostname"] = f"{name}-{index}"
        return {"metadata": meta, "spec": template["spec"], "status": {"phase": "Pending"}}

    def _counted(self, job: Object, pod: Object, count: Count) -> None:
        index = pod["metadata"].get("labels", {}).get(INDEX, pod["metadata"]["name"])
        if pod["status"]["phase"] == "Succeeded":
            count.succeeded.add(index)
        else:
            action, why = judged(job, pod)
            count.not_before_s = time.monotonic() + (self.backoff_s if action == "Count" else 0.0)
            if action != "Ignore":
                count.failed += 1
            limit = job["spec"].get("backoffLimitPerIndex")
            if action == "FailJob":
                self._fail(job, "PodFailurePolicy", why)
            elif limit is not None and action in ("Count", "FailIndex"):
                count.bad[index] = count.bad.get(index, 0) + 1
                if action == "FailIndex" or count.bad[index] > limit:
                    count.bad_indexes.add(index)
            elif action == "Count" and count.failed > job["spec"]["backoffLimit"]:
                self._fail(job, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        self._untrack(pod)

    def _untrack(self, pod: Object) -> None:
        meta = pod["metadata"]

        def act(it: Object) -> None:
            it["metadata"]["finalizers"] = [one for one in it["metadata"].get("finalizers", ()) if one != TRACKING]

        try:
            self.store.change("pods", meta["namespace"], meta["name"], act)
        except Refused:
            return
        if meta.get("annotations", {}).get("standin/ended") and "deletionTimestamp" in meta:
            self.store.remove("pods", meta["namespace"], meta["name"])

    def delete_pod(self, pod: Object, grace_s: float | None = None) -> None:
        """As DELETE: at once where it has no node or no grace, else the kubelet's to end."""
        meta, spec = pod["metadata"], pod["spec"]
        grace_s = spec.get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s
        is_over = pod["status"].get("phase") in ("Succeeded", "Failed")
        if not spec.get("nodeName") or not grace_s or is_over:
            self.store.remove("pods", meta["namespace"], meta["name"])
            return

        def act(it: Object) -> None:
            if "deletionTimestamp" not in it["metadata"] or it["metadata"]["deletionGracePeriodSeconds"] > grace_s:
                it["metadata"].update(
                    deletionTimestamp=stamp(time.time() + grace_s), deletionGracePeriodSeconds=grace_s
                )

        self.store.change("pods", meta["namespace"], meta["name"], act)

    def _deleting(self, job: Object, pods: list[Object]) -> None:
        meta = job["metadata"]
        if "orphan" in meta.get("finalizers", ()):
            for pod in pods:
                self.store.change("pods", meta["namespace"], pod["metadata"]["name"],
                                  lambda it: it["metadata"].pop("ownerReferences", None))  # fmt: skip
                self._untrack(pod)
            self.store.remove("jobs", meta["namespace"], meta["name"])
            return
        for pod in pods:
            self._untrack(pod)
            if "deletionTimestamp" not in pod["metadata"]:
                self.delete_pod(pod)
        if not pods:
            self.store.remove("jobs", meta["namespace"], meta["name"])

    def _finished(self, job: Object) -> None:
        ttl_s, done = job["spec"].get("ttlSecondsAfterFinished"), condition(job, "Complete") or condition(job, "Failed")
        assert done is not None
        if ttl_s is not None and done["standin_s"] + ttl_s <= time.time():
            self.store.remove("jobs", job["metadata"]["namespace"], job["metadata"]["name"])

    def _fail(self, job: Object, reason: str, message: str) -> None:
        self._set(job, "FailureTarget", reason, message)

    def _set(self, job: Object, word: str, reason: str, message: str) -> None:
        def act(it: Object) -> None:
            if condition(it, word) is None:
                at = stamp()
                one = {"type": word, "status": "True", "lastProbeTime": at, "lastTransitionTime": at}
                one |= {"reason": reason, "message": message, "standin_s": time.time()}
                it["status"].setdefault("conditions", []).append(one)

        self.store.change("jobs", job["metadata"]["namespace"], job["metadata"]["name"], act)

    def _status(self, meta: Object, count: Count) -> None:
        pods = [pod for pod in self.store.all("pods", meta["namespace"]) if owner_of(pod) == meta["uid"]]
        alive = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        active = [pod for pod in alive if "deletionTimestamp" not in pod["metadata"]]
        ready = [pod for pod in active if pod["status"].get("phase") == "Running"]

        def act(it: Object) -> None:
            status, spec = it["status"], it["spec"]
            status.setdefault("startTime", stamp())
            new: dict[str, Any] = {"active": len(active), "succeeded": len(count.succeeded), "failed": count.failed}
            for key, value in new.items():
                status.update({key: value}) if value else status.pop(key, None)
            status.update(terminating=len(alive) - len(active), uncountedTerminatedPods={}, ready=len(ready))
            if spec["completionMode"] == "Indexed":
                if count.succeeded:
                    status["completedIndexes"] = ranges(count.succeeded)
                if "backoffLimitPerIndex" in spec:
                    status["failedIndexes"] = ranges(count.bad_indexes)

        self.store.change("jobs", meta["namespace"], meta["name"], act)

    def event(self, kind: str, reason: str, message: str, of: str, about: Object) -> None:
        """As `kubectl get events` shows."""
        meta = about["metadata"]
        component = {"Job": "job-controller", "Pod": "kubelet"}[of]
        value = {
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}"},
            "involvedObject": {"kind": of, "namespace": meta["namespace"], "name": meta["name"],
                               "apiVersion": about.get("apiVersion"), "uid": meta.get("uid")},
            "reason": reason, "message": message, "source": {"component": component}, "type": kind,
            "firstTimestamp": stamp(), "lastTimestamp": stamp(), "count": 1, "eventTime": None,
            "reportingComponent": component, "reportingInstance": "",
        }  # fmt: skip
        self.store.create("events", meta["namespace"], value)


def judged(job: Object, pod: Object) -> tuple[str, str]:
    """(action of the first rule that fits, what is said of it); ("Count", "") where none does."""
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules", ())):
        for pattern in rule.get("onPodConditions") or ():
            for has in pod["status"].get("conditions", ()):
                if has["type"] == pattern["type"] and has["status"] == pattern.get("status", "True"):
                    return rule["action"], f"Pod {pod['metadata']['name']} has condition {has['type']}"
        codes = rule.get("onExitCodes")
        for container in pod["status"].get("containerStatuses", ()) if codes else ():
            code = container.get("state", {}).get("terminated", {}).get("exitCode", 0)
            if codes.get("containerName") not in (None, container["name"]) or not code:
                continue
            if (code in codes["values"]) == (codes["operator"] == "In"):
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                where = f"Container {container['name']} for pod {name} failed with exit code {code}"
                return rule["action"], f"{where} matching {rule['action']} rule at index {number}"
    return "Count", ""


def owner_of(pod: Object) -> str:
    """The uid of its Job; "" for none."""
    return next((one["uid"] for one in pod["metadata"].get("ownerReferences", ())), "")


def condition(value: Object, word: str) -> Object | None:
    """The condition of this type where it is True."""
    found = value.get("status", {}).get("conditions", ())
    return next((one for one in found if one["type"] == word and one["status"] == "True"), None)


def ranges(indexes: set[str]) -> str:
    """0,1 or 0-2, as recorded: two in a row are listed, three are a range."""
    out: list[list[int]] = []
    for number in sorted(map(int, indexes)):
        if out and number == out[-1][-1] + 1:
            out[-1].append(number)
        else:
            out.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 2 else ",".join(map(str, part)) for part in out)
