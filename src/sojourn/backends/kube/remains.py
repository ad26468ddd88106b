"""All that a namespace has of ours, whoever started it: Jobs, pods that no Job has any more, claims. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.kube import names, reader, states
from sojourn.backends.kube.api import Api
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.ports import Handle
from sojourn.core.values import NoAnswer, Site
from sojourn.wire import quote
from sojourn.wire.errors import WorldError

Object = Mapping[str, Any]


def kept(api: Api, site: Site, handles: Sequence[Handle]) -> Inventory | NoAnswer:
    """Three lists, whatever the number of runs. A command to delete stands only at what is over.

    Claims have none: they hold runs, and are deleted by name alone. Raises: NotAllowed, ApiRefused.
    """
    jobs = api.listed(api.path("jobs"), names.OURS)
    if isinstance(jobs, NoAnswer):
        return jobs
    pods = api.listed(api.path("pods"), names.OURS)
    if isinstance(pods, NoAnswer):
        return pods
    by_job: dict[str, list[str]] = {}
    by_root: dict[str, list[str]] = {}
    for one in handles:
        by_job.setdefault(states.split(one.native)[0], []).append(one.native)
        by_root.setdefault(names.digest(str(one.facts.get("root") or "")), []).append(one.native)

    def of(value: Object, job: str) -> tuple[str, ...]:
        labels = value["metadata"].get("labels") or {}
        return tuple(by_job.get(job) or by_root.get(str(labels.get("sojourn-root"))) or ())

    assets = []
    for job in jobs:
        name = str(job["metadata"]["name"])
        state = _state(job)
        command = _delete(api, "job", name) if state != "active" else ""
        assets.append(Asset("job", name, _what(job), state, of=of(job, name), command=command))
    there = {str(job["metadata"]["uid"]) for job in jobs}
    for pod in pods:
        name, phase = str(pod["metadata"]["name"]), str((pod.get("status") or {}).get("phase") or "unknown")
        labels = pod["metadata"].get("labels") or {}
        if labels.get(names.COMPONENT) == names.READER:
            mine = (site.name,) if name == reader.name(site) else ()
            assets.append(Asset("pod", name, "ends by itself", phase.lower(), of=mine))
        elif not any(one.get("uid") in there for one in pod["metadata"].get("ownerReferences") or ()):
            over = phase in ("Succeeded", "Failed")
            command = _delete(api, "pod", name) if over else ""
            belongs = of(pod, str(labels.get("job-name")))
            assets.append(Asset("pod", name, "its job is gone", phase.lower(), of=belongs, command=command))
    volumes = [volume for pod in pods for volume in (pod.get("spec") or {}).get("volumes") or ()]
    used = {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}
    try:
        claims = api.listed(api.path("persistentvolumeclaims"))
    except WorldError as no:
        return Inventory(tuple(assets), (("claims", no.message),))
    if isinstance(claims, NoAnswer):
        return Inventory(tuple(assets), (("claims", claims.detail),))
    for claim in claims:
        name = str(claim["metadata"]["name"])
        if name == names.claim_of(site) or name in used:
            phase = str((claim.get("status") or {}).get("phase") or "unknown").lower()
            assets.append(Asset("claim", name, f"holds runs, {_size(claim)}", phase, of=(site.name,)))
    return Inventory(tuple(assets))


def _state(job: Object) -> str:
    for one in (job.get("status") or {}).get("conditions") or ():
        if one.get("type") in ("Complete", "Failed") and one.get("status") == "True":
            return str(one["type"]).lower()
    return "active"


def _what(job: Object) -> str:
    """The run, or the list of cells, that it was made for."""
    notes = job["metadata"].get("annotations") or {}
    return str(notes.get("sojourn/root") or notes.get("sojourn/cells") or "").rpartition("/")[2]


def _size(claim: Object) -> str:
    status = claim.get("status") or {}
    asked = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str((status.get("capacity") or {}).get("storage") or asked.get("storage") or "unknown size")


def _delete(api: Api, kind: str, name: str) -> str:
    words = ["kubectl", "--context", api.access.context, "-n", api.access.namespace, "delete", kind, name]
    return quote.join([*words, *(["--cascade=foreground"] if kind == "job" else [])])
