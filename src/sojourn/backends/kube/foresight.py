"""What can be told before a Job is made: a dry run, quota, nodes, rights. And what the cluster refused since."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.backends.kube import pending
from sojourn.backends.kube.api import Api, ApiRefused, NotAllowed
from sojourn.backends.kube.security import HINT
from sojourn.core.ports import DryRun
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import WorldError

# What sojourn does in a namespace; docs/kubernetes.md has it as a Role, and a test holds the two together.
RIGHTS = (
    ("create", "batch", "jobs"), ("get", "batch", "jobs"), ("list", "batch", "jobs"), ("delete", "batch", "jobs"),
    ("patch", "batch", "jobs"), ("create", "", "pods"), ("get", "", "pods"), ("list", "", "pods"),
    ("delete", "", "pods"), ("create", "", "pods/exec"), ("get", "", "pods/exec"), ("get", "", "pods/log"),
    ("list", "", "events"), ("list", "", "persistentvolumeclaims"), ("list", "", "resourcequotas"),
)  # fmt: skip
# Without these nothing runs, comes home or ends; the others say more, or cancel a cell of a sweep.
NEEDED = {
    ("create", "jobs"), ("list", "jobs"), ("delete", "jobs"), ("create", "pods"), ("get", "pods"), ("list", "pods"),
    ("delete", "pods"), ("create", "pods/exec"), ("get", "pods/exec"),
}  # fmt: skip
_UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_UNITS |= {f"{unit}i": 1024.0 ** (power + 1) for power, unit in enumerate("KMGTP")}


def try_out(api: Api, script: str, site: str = "NAME") -> DryRun | NoAnswer:
    """Whether the cluster would take the Job, and its pod, which quota and pod security judge; then what is left."""
    import yaml

    try:
        job = yaml.safe_load(script)
        pod = {"apiVersion": "v1", "kind": "Pod", **job["spec"]["template"]}
    except (yaml.YAMLError, TypeError, KeyError):
        job = pod = {}
    if job:
        pod["metadata"] = {**(pod.get("metadata") or {}), "generateName": f"{job['metadata']['name']}-"}
    for plural, body in (("jobs", job), ("pods", pod)):
        params = {"dryRun": "All", "fieldValidation": "Strict"}
        try:
            said = api.ask("POST", api.path(plural), params=params, body=body, is_repeatable=True)
        except NotAllowed as no:
            if plural == "pods":
                break  # a Job makes its pods itself; whether quota allows them is then not known
            return DryRun(False, no.message, no.next)
        except ApiRefused as no:
            return DryRun(False, pending.brief(str(no.fields["message"])), _hint(api, site, str(no.fields["message"])))
        if isinstance(said, NoAnswer):
            return said
        if plural == "pods" and said.get("spec"):
            pod = said  # with what the cluster adds by itself, such as a toleration of the taint of its GPU nodes
    parts = [_quota(api), _nodes(api, pod)]
    return DryRun(True, "; ".join(part for part in ("the cluster accepts this Job", *parts) if part))


def refusals(api: Api) -> dict[str, str]:
    """The newest refusal to create a pod, by Job; {} where one may not look."""
    try:
        events = api.listed(api.path("events"), fields="reason=FailedCreate,involvedObject.kind=Job")
    except WorldError:
        return {}
    out: dict[str, str] = {}
    for one in [] if isinstance(events, NoAnswer) else events:
        said = re.sub(r'^Error creating: pods "[^"]*" is forbidden: ', "", str(one.get("message") or ""))
        out[str((one.get("involvedObject") or {}).get("name"))] = said
    return out


def unready(api: Api) -> frozenset[str] | None:
    """Nodes that the cluster does not hear; None where one may not look."""
    try:
        nodes = api.listed("/api/v1/nodes")
    except WorldError:
        return None
    if isinstance(nodes, NoAnswer):
        return None
    return frozenset(str(node["metadata"]["name"]) for node in nodes if not _is_ready(node))


def missing_right(api: Api) -> NotAllowed | None:
    """The first right that is needed and not there; None also where nobody answers."""
    for verb, group, resource in RIGHTS:
        if (verb, resource) not in NEEDED:
            continue
        plural, _, sub = resource.partition("/")
        asked = {"namespace": api.access.namespace, "verb": verb, "group": group, "resource": plural}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        spec = {"resourceAttributes": {**asked, **({"subresource": sub} if sub else {})}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        said = api.ask("POST", path, body={**body, "spec": spec}, is_repeatable=True)
        if isinstance(said, NoAnswer):
            return None
        if (said.get("status") or {}).get("allowed") is False:
            text = f'cannot {verb} resource "{resource}" in API group "{group}"'
            return api.not_allowed(text, "POST", path)
    return None


def amount(text: Any) -> float:
    """A quantity such as 16Gi, 500m or 4; 0 for what is none."""
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    return float(found[1]) * _UNITS.get(found[2], 1.0) if found else 0.0


def _quota(api: Api) -> str:
    try:
        quotas = api.listed(api.path("resourcequotas"))
    except WorldError:
        return "quota: you may not look"
    if isinstance(quotas, NoAnswer):
        return ""
    rows = []
    for one in quotas:
        status = one.get("status") or {}
        for key, hard in (status.get("hard") or (one.get("spec") or {}).get("hard") or {}).items():
            used = (status.get("used") or {}).get(key)
            rows.append(f"{key} {hard}" + (f" of which {used} used" if used is not None else ""))
    return f"quota: {', '.join(rows)}" if rows else "no quota in this namespace"


def _nodes(api: Api, pod: Mapping[str, Any]) -> str:
    try:
        nodes = api.listed("/api/v1/nodes")
    except WorldError:
        return "whether a node could take it is unknown: you may not list nodes"
    if isinstance(nodes, NoAnswer):
        return ""
    spec = pod.get("spec") or {}
    large = [node for node in nodes if _is_ready(node) and _fits(spec, node)]
    fitting = [node for node in large if not _kept_off(spec, node)]
    if fitting:
        return f"{len(fitting)} of {len(nodes)} nodes are large enough"
    if large:
        why = _kept_off(spec, large[0])
        return f"{len(large)} of {len(nodes)} nodes are large enough, but none lets this pod in: {why}"
    return f"none of {len(nodes)} nodes that are there now could take it: it waits unless the cluster adds one"


def _fits(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    if terms and not any(_has(labels, term) for term in terms):
        return False
    have = (node.get("status") or {}).get("allocatable") or {}
    for container in spec.get("containers") or ():
        asked = container.get("resources") or {}
        for key, value in {**(asked.get("limits") or {}), **(asked.get("requests") or {})}.items():
            if amount(value) > amount(have.get(key, "0")):
                return False
    return True


def _kept_off(spec: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """What keeps the pod off a node that could hold it; "" for nothing.

    Source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration (2026-11).
    """
    held = node.get("spec") or {}
    for taint in held.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
            _tolerates(one, taint) for one in spec.get("tolerations") or ()
        ):
            shown = "=".join(str(taint[key]) for key in ("key", "value") if taint.get(key))
            return f"it is tainted {shown}; set `tolerations`"
    return "it is cordoned" if held.get("unschedulable") else ""


def _tolerates(one: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if one.get("effect") and one["effect"] != taint.get("effect"):
        return False
    if one.get("operator") == "Exists":
        return not one.get("key") or one["key"] == taint.get("key")
    return one.get("key") == taint.get("key") and str(one.get("value") or "") == str(taint.get("value") or "")


def _has(labels: Mapping[str, Any], term: Mapping[str, Any]) -> bool:
    wants = term.get("matchExpressions") or ()
    return all(one.get("operator") != "In" or labels.get(one["key"]) in (one.get("values") or ()) for one in wants)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _hint(api: Api, site: str, said: str) -> str:
    where = f"kubectl -n {api.access.namespace}"
    if "must specify" in said:
        return "set `resources: {cpus, memory}` in the job, and limits as `k8s: {pod: {container: {resources: ...}}}`"
    if "quota" in said:
        return f"{where} describe quota  (then ask for less, or for more quota)"
    if "PodSecurity" in said:
        return HINT.format(site=site)
    return "change the fields that it names, in the site's settings or the job"
