"""A claim that one node may mount at a time (ReadWriteOnce): on which node it is wanted, and the reader that holds it
elsewhere.

Storage of most clusters is of this kind. A reader on another node keeps the run's pod waiting (Multi-Attach error) for
as long as anybody asks how the run fares, so it gives way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.kube.names import COMPONENT, OURS, claim_label
from sojourn.core.values import Site

Object = Mapping[str, Any]


def is_for_one_node(claim: Object) -> bool:
    """Whether two nodes cannot write it at once."""
    return "ReadWriteMany" not in modes(claim)


def modes(claim: Object) -> Sequence[str]:
    """How it may be mounted."""
    return (claim.get("spec") or {}).get("accessModes") or (claim.get("status") or {}).get("accessModes") or ()


def runs(site: Site) -> str:
    """A selector for the pods that train on the site's claim."""
    return f"{OURS},{COMPONENT}=run,sojourn-claim={claim_label(site)}"


def wanted_on(pods: Sequence[Object]) -> str:
    """The node whose pods have, or wait for, the claim; "" for none. The oldest pod has it: the others wait."""
    living = [
        pod
        for pod in pods
        if (pod.get("spec") or {}).get("nodeName")
        and (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        and "deletionTimestamp" not in pod["metadata"]
    ]
    running = [pod for pod in living if pod["status"]["phase"] == "Running"]
    oldest = sorted(running or living, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    return str(oldest[0]["spec"]["nodeName"]) if oldest else ""


def waits_on(pods: Sequence[Object]) -> str:
    """The node on which a pod was put and does not start, while none runs; "" for none."""
    if any((pod.get("status") or {}).get("phase") == "Running" for pod in pods):
        return ""
    return wanted_on([pod for pod in pods if not _has_started(pod)])


def put_there(spec: Object, node: str) -> dict[str, Any]:
    """`spec` of a reader bound to a node, whatever that is reserved for. Its own affinity to pods is kept."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    chosen = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    bound = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": chosen}}
    return {**spec, "affinity": {**(spec.get("affinity") or {}), **bound}, "tolerations": [{"operator": "Exists"}]}


def _has_started(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(one.get("started") or one.get("ready") for one in rows)
