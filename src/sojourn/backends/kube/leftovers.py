"""What a cluster keeps of our runs: for a diagnosis, and to take away once it is home."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import Any

from sojourn.backends.kube import names, reader
from sojourn.backends.kube.api import Api, ApiRefused
from sojourn.core.values import NoAnswer, Site
from sojourn.wire.errors import WorldError

GONE_S = 60.0
_LOOK_S = 0.2
Records = dict[str, tuple[int, str]]


def around(api: Api, site: Site, about: Collection[str]) -> Records:
    """Events of these objects, the claim, and what nodes can give, by the command that shows them."""
    claim = names.claim_of(site)
    wanted: dict[str, Callable[[], list[dict[str, Any]] | NoAnswer]] = {
        "kubectl get events -o json": lambda: api.listed(api.path("events")),
        f"kubectl get pvc {claim} -o json": lambda: api.listed(
            api.path("persistentvolumeclaims"), fields=f"metadata.name={claim}"
        ),
        "kubectl get nodes -o json": lambda: api.listed("/api/v1/nodes"),
    }
    kinds = ("Event", "PersistentVolumeClaim", "Node")
    out: Records = {}
    for (command, ask), kind in zip(wanted.items(), kinds, strict=True):
        try:
            found = ask()
        except WorldError as no:
            out[command] = (1, no.message)
            continue
        if isinstance(found, NoAnswer):
            continue
        if kind == "Event":
            found = [one for one in found if (one.get("involvedObject") or {}).get("name") in about]
        if kind == "Node":
            found = [_short(one) for one in found]
        out[command] = (0, json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "items": found}))
    return out


def log(api: Api, pod: str, lines: int, limit_bytes: int) -> Records:
    """The end of what the pod itself said; its keeper's words are in the run's root."""
    params = {"tailLines": lines, "limitBytes": limit_bytes, "container": names.CONTAINER}
    try:
        said = api.text(api.path("pods", pod, "log"), params)
    except ApiRefused as no:
        return {f"kubectl logs {pod}": (1, no.message)}
    return {} if isinstance(said, NoAnswer) else {f"kubectl logs {pod}": (0, said)}


def tidy(api: Api, site: Site, jobs: Collection[str], roots: Collection[str]) -> str | NoAnswer:
    """Delete these Jobs and all others of these roots where they are over, and the reader, and see that their pods are
    gone; what stays, in words.

    Claims are never deleted. Raises: NotAllowed, ApiRefused.
    """
    there = api.listed(api.path("jobs"), names.OURS)
    if isinstance(there, NoAnswer):
        return there
    gone, living = [], []
    for job in there:
        name = str(job["metadata"]["name"])
        if name not in jobs and (job["metadata"].get("annotations") or {}).get("sojourn/root") not in roots:
            continue
        if not _is_over(job):
            living.append(name)
            continue
        uid = {"preconditions": {"uid": job["metadata"]["uid"]}}
        try:
            body = {"propagationPolicy": "Foreground", **uid}
            said = api.ask("DELETE", api.path("jobs", name), body=body, is_repeatable=True)
        except ApiRefused as no:
            if no.status not in (404, 409):
                raise
            continue
        if isinstance(said, NoAnswer):
            return said
        gone.append(name)
    if (no_answer := reader.delete(api, site)) is not None:
        return no_answer
    left = _seen_gone(api, site, gone)
    if isinstance(left, NoAnswer):
        return left
    kept = _claim(api, site)
    parts = [f"{len(gone)} finished Job{'' if len(gone) == 1 else 's'} deleted, {left}" if gone else left, kept]
    parts += [f"still active: {', '.join(living)}"] if living else []
    parts.append("nodes of a pool may go on costing until they are scaled down")
    return "; ".join(part for part in parts if part)


def _seen_gone(api: Api, site: Site, jobs: Collection[str]) -> str | NoAnswer:
    deadline_s = time.monotonic() + GONE_S
    while True:
        pods = api.listed(api.path("pods"), names.OURS)
        if isinstance(pods, NoAnswer):
            return pods
        mine = [
            str(pod["metadata"]["name"])
            for pod in pods
            if (pod["metadata"].get("labels") or {}).get("job-name") in jobs
            or pod["metadata"]["name"] == reader.name(site)
        ]
        if not mine:
            return "no pod of theirs is left"
        if time.monotonic() >= deadline_s:
            return f"still there: pod {', '.join(mine)}"
        time.sleep(_LOOK_S)


def _claim(api: Api, site: Site) -> str:
    name = names.claim_of(site)
    try:
        found = api.listed(api.path("persistentvolumeclaims"), fields=f"metadata.name={name}")
    except WorldError:
        return f"claim {name} stays"
    for one in [] if isinstance(found, NoAnswer) else found:
        size = ((one.get("status") or {}).get("capacity") or {}).get("storage") or "unknown size"
        return f"claim {name} ({size}) stays with the runs on it, and may cost"
    return ""


def _short(node: dict[str, Any]) -> dict[str, Any]:
    status = node.get("status") or {}
    return {
        "metadata": {"name": node["metadata"].get("name")},
        "status": {"allocatable": status.get("allocatable"), "conditions": status.get("conditions")},
    }


def _is_over(job: dict[str, Any]) -> bool:
    ends = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in ends)
