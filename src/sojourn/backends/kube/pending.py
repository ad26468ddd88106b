"""Why a pod does not run yet, from its conditions and what its containers wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HOPELESS = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "InvalidImageName": "its image's name is not valid",
    "ErrImageNeverPull": "its image is not on the node, and may not be pulled",
    "CreateContainerConfigError": "what its container needs is not there",
    "CreateContainerError": "its container cannot be created",
    "RunContainerError": "its container does not start",
    "CrashLoopBackOff": "its container ends again and again",
}


def reason(pod: Mapping[str, Any]) -> tuple[str, bool]:
    """(why it does not run, in words with the cluster's own, whether waiting alone will hardly help)."""
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"]:
        return "it is being deleted", False
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waits = (one.get("state") or {}).get("waiting") or {}
        if waits.get("reason") in _HOPELESS:
            image = f" ({one.get('image')})" if "Image" in str(waits["reason"]) else ""
            return f"{_HOPELESS[waits['reason']]}{image}: {brief(waits.get('message') or waits['reason'])}", True
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            said = brief(one.get("message") or one.get("reason") or "")
            return _unscheduled(said), "persistentvolumeclaim" in said
        if one.get("type") == "PodReadyToStartContainers" and one.get("status") == "False":
            return "its node prepares its container", False
    return (
        "its container is being created" if (pod.get("spec") or {}).get("nodeName") else "no node was chosen yet"
    ), False  # noqa: E501  fmt: skip


def _unscheduled(said: str) -> str:
    if "nvidia.com/gpu" in said or "amd.com/gpu" in said:
        return f"no node has enough free GPUs of that kind: {said}"
    if "volume node affinity" in said:
        return f"its claim lies in a zone in which no fitting node is: {said}"
    if "persistentvolumeclaim" in said:
        return f"its claim cannot be used: {said}"
    return f"no node can take it now: {said}"


def brief(text: str, most: int = 300) -> str:
    """One line of it, without what the scheduler says of preemption."""
    line = " ".join(text.split()).partition(" preemption: ")[0].removesuffix(",").strip()
    line = line.replace(" no new claims to deallocate,", "").removesuffix(" no new claims to deallocate").rstrip(".")
    return line if len(line) <= most else line[: most - 3] + "..."
