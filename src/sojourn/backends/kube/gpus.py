"""Which nodes have the GPU that a job asks for: by the site's settings, otherwise by the labels that nodes carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.kube.api import Api, NotAllowed
from sojourn.backends.kube.names import BadPodSetting
from sojourn.core import need
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import WorldError

# Labels with a GPU's name: of NVIDIA's feature discovery, and of hosted clusters. Source: their documentation, 2026-11.
LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
)


class NoSuchGpu(WorldError):
    """No node of {context} has a GPU {wanted}; its nodes have: {there}."""

    code = "no-such-gpu"
    is_end = True
    next_step = "set `accelerators` to one of these, or `gpus` in [sites.{site}.k8s_job]"


def pick(api: Api, site: str, accelerators: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any] | NoAnswer:
    """Fields of a pod that put it on nodes with the first of these that there is; {} where any GPU will do.

    Raises: NoSuchGpu, BadPodSetting.
    """
    wanted = [str(one).rpartition(":")[0] for one in accelerators[:1]]
    if not wanted or wanted[0].lower() in ("gpu", "any"):
        return {}
    known = options.get("gpus") or {}
    for name, labels in known.items() if isinstance(known, Mapping) else ():
        if str(name).lower() == wanted[0].lower() and isinstance(labels, Mapping):
            return {"nodeSelector": {str(key): str(value) for key, value in labels.items()}}
    try:
        nodes = api.listed("/api/v1/nodes")
    except NotAllowed as no:
        why = f"you may not list nodes, so set `gpus.{wanted[0]}` to the labels of nodes with that GPU"
        raise BadPodSetting(site=site, name="accelerators", why=why) from no
    if isinstance(nodes, NoAnswer):
        return nodes
    terms, there = [], set[str]()
    for label in LABELS:
        values = {str(value) for node in nodes if (value := (node["metadata"].get("labels") or {}).get(label))}
        there |= values
        fitting = sorted(value for value in values if need.fits(wanted[0], value))
        if fitting:
            terms.append({"matchExpressions": [{"key": label, "operator": "In", "values": fitting}]})
    if not terms:
        listed = ", ".join(sorted(there)) or "no label that names one"
        raise NoSuchGpu(context=api.access.context, wanted=wanted[0], there=listed, site=site)
    chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": chosen}}
