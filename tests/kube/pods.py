"""What a pod of the stand-in says of itself: as whom it runs, what it mounts, how its status is written."""

from __future__ import annotations

import os
from typing import Any

from tests.kube.store import Object, stamp

ROOTLESS = [] if os.getuid() == 0 else ["--user", "--map-root-user"]


def user_of(pod: Object) -> int:
    """As whom its first container runs, 0 for root; here only root can become somebody."""
    own = pod["spec"]["containers"][0].get("securityContext") or {}
    user = own.get("runAsUser", (pod["spec"].get("securityContext") or {}).get("runAsUser", 0))
    return 0 if ROOTLESS else int(user)


def is_fixed(pod: Object) -> bool:
    """Whether its first container must not write to its root file system."""
    return bool((pod["spec"]["containers"][0].get("securityContext") or {}).get("readOnlyRootFilesystem"))


def claims_of(pod: Object) -> list[str]:
    """Names of the claims that it mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def fit(labels: Object, expression: Object) -> bool:
    """Whether a node's labels fit one expression of an affinity."""
    has, values = labels.get(expression["key"]), expression.get("values") or ()
    return {"In": has in values, "NotIn": has not in values, "Exists": has is not None,
            "DoesNotExist": has is None}[expression["operator"]]  # fmt: skip


def field_of(pod: Object, path: str) -> str:
    """A field for an environment variable."""
    if path.startswith("metadata.labels['"):
        return str(pod["metadata"]["labels"].get(path[17:-2], ""))
    at: Any = pod
    for part in path.split("."):
        at = at.get(part, "") if isinstance(at, dict) else ""
    return str(at)


def conditions(pod: Object, *, is_ready: bool) -> list[Object]:
    """The usual ones of a pod that has a node."""
    words = {"PodScheduled": True, "Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
    at = {"lastProbeTime": None, "lastTransitionTime": stamp()}
    return [{"type": word, "status": "True" if value else "False", **at} for word, value in words.items()]


def container_status(container: Object, state: Object, *, is_ready: bool) -> Object:
    """As in `containerStatuses`."""
    out = {"name": container["name"], "state": state, "lastState": {}, "ready": is_ready, "restartCount": 0}
    return {**out, "image": container["image"], "imageID": "", "started": is_ready}
