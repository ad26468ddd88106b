"""The Job of a run: its pod, what the pod does, and how the cluster is to take its ends.

Source: kubernetes.io/docs/concepts/workloads/controllers/job (2026-11), and what a server of 1.36 did in
tests/kube/recordings. Fields are those that every server from 1.30 on has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.kube import names
from sojourn.backends.kube.names import BadPodSetting
from sojourn.backends.kube.podspec import overlaid
from sojourn.backends.kube.reader import IMAGE, registry
from sojourn.backends.kube.security import secured, with_tmp
from sojourn.core.ports import LaunchRequest
from sojourn.core.values import Site

GRACE_S = 30  # for the payload to save, at the least
_WRITE_S = 30.0  # a save's time until one was measured
_SPARE_S = 3
AGAIN = 75  # the keeper's own: another seat would help
_KNOWN = frozenset(
    "claim user reader_image reader_pod image shm priority_class tolerations node_selector service_account pull_secrets"
    " pod gpus gpu_resource queue".split()
)
# $1 root, $2 what the Job is called; then the keeper's argv. The first process of the pod: it hands SIGTERM on, takes
# a keeper that was killed back in, and ends as the run did. A seat has its own number for each pod of the Job, also
# where two live at once: a folder is made once.
POD = r"""
root=$1 job=$2; shift 2
say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) sojourn: $*"; }
refuse() { say "$*"; exit 73; }
# A user whom the image does not know has neither a home nor a name.
[ -w "${HOME:-/}" ] || export HOME=@mount@
[ -n "${USER:-}" ] || id -un >/dev/null 2>&1 || export USER=sojourn
seats=$root/exits/$job.seats n=0
mkdir -p "$root/logs" "$seats" ||
  refuse "user $(id -u) cannot write $root: set \`user\` in [sites.NAME.kube], so that all pods run as one user"
until mkdir "$seats/$n" 2>/dev/null; do
  [ -d "$seats/$n" ] || refuse "$seats cannot be written"
  n=$((n + 1))
done
export SOJOURN_SEAT="$job:$n"
say "$SOJOURN_SEAT on $(hostname)"
if ! command -v "$1" >/dev/null 2>&1; then
  for python in python3 python /opt/conda/bin/python3 /usr/bin/python3 /usr/local/bin/python3 /opt/venv/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && break
    python=
  done
  [ -n "$python" ] || refuse "this image has no Python 3.8 or newer, which the keeper needs"
  shift; set -- "$python" "$@"
fi
told=
trap 'told=1; say "the cluster ends this pod"; kill -TERM "$pid" 2>/dev/null' TERM INT
tries=0
while :; do
  "$@" </dev/null >>"$root/logs/keeper.log" 2>&1 & pid=$!
  while wait "$pid"; rc=$?; kill -0 "$pid" 2>/dev/null; do :; done
  [ "$rc" = 137 ] && [ -z "$told" ] && [ "$tries" -lt 3 ] || break
  tries=$((tries + 1))
  say "the keeper was killed: another one takes over"
done
say "the keeper left with $rc"
[ "$rc" != 75 ] || exit 75
ended=$(grep '"kind": *"ended"' "$root/events.jsonl" 2>/dev/null | tail -n 1)
case $rc$ended in 0*'"state":'*'"succeeded"'*) ;; 0*) rc=1 ;; esac
exit "$rc"
""".replace("@mount@", names.MOUNT)
# Of the cells of a sweep: $1 folder of the roots, $2 file with a line `RUN ATTEMPT` a cell, $3 the Job, then argv.
POD_OF_CELLS = r"""
runs=$1 cells=$2 job=$3; shift 3
cell=$(sed -n "$((JOB_COMPLETION_INDEX + 1))s/ .*//p" "$cells")
[ ! -e "${cells%.cells}.out.$JOB_COMPLETION_INDEX" ] || { echo "sojourn: this cell was cancelled"; exit 74; }
[ -n "$cell" ] || { echo "sojourn: $cells has no line for index $JOB_COMPLETION_INDEX"; exit 73; }
set -- "$runs/$cell" "$job.$JOB_COMPLETION_INDEX" "$@" "$runs/$cell"
"""


def chosen(site: Site, request: LaunchRequest) -> dict[str, Any]:
    """The site's options with the job's own laid over them. Raises: BadPodSetting."""
    own = (request.spec.get("site_options") or {}).get("k8s") or {}
    ours = names.options(site)
    for key in (*ours, *own):
        if key not in _KNOWN:
            near = ", ".join(sorted(_KNOWN))
            raise BadPodSetting(site=site.name, name=key, why=f"there are {near}")
    for key in ("claim", "user", "reader_image", "reader_pod"):
        if key in own:
            raise BadPodSetting(site=site.name, name=key, why="it belongs in the site's settings, not in a job")
    return {**ours, **own}


def job(
    site: Site, root: str, name: str, command: Sequence[str], request: LaunchRequest, gpus: Mapping[str, Any]
) -> dict[str, Any]:
    """The Job of one root. `gpus`: what picks the nodes that have the wanted GPU, as `need.pick` found.

    Raises: BadPodSetting, OffClaim.
    """
    names.check_base(site, root)
    run = root.rstrip("/").rpartition("/")[2]
    labels = {**_labels(site, request), "sojourn-run": names.label(run), "sojourn-root": names.digest(root)}
    words = ["sh", "-c", POD, "sojourn", root, name, *command]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": {"sojourn/root": root}},
        "spec": {
            "backoffLimit": 0,
            **_ends("FailJob"),
            "template": {"metadata": {"labels": labels}, "spec": _pod(site, words, request, gpus)},
        },
    }


def cells(
    site: Site,
    runs: str,
    file: str,
    name: str,
    command: Sequence[str],
    many: tuple[int, int],
    request: LaunchRequest,
    gpus: Mapping[str, Any],
) -> dict[str, Any]:
    """One Indexed Job for the cells in `file`; `many`: how many there are, how many at a time (0: all).

    Raises: BadPodSetting, OffClaim.
    """
    names.check_base(site, runs)
    labels = {**_labels(site, request), "sojourn-cells": names.label(name)}
    words = ["sh", "-c", POD_OF_CELLS + POD, "sojourn", runs, file, name, *command]
    count, at_once = many
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": {"sojourn/cells": file}},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": at_once or count,
            "backoffLimitPerIndex": 0,
            **_ends("FailIndex"),
            "template": {"metadata": {"labels": labels}, "spec": _pod(site, words, request, gpus)},
        },
    }


def _ends(otherwise: str) -> dict[str, Any]:
    """What a pod's end means: what the cluster did is not the run's fault, and is made good by another pod; a run that
    failed has failed. The next pod is not made before the last one is known to have ended."""
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    codes = {"containerName": names.CONTAINER, "values": [AGAIN]}
    rules = [
        {"action": "Ignore", "onPodConditions": disrupted},
        {"action": "Ignore", "onExitCodes": {**codes, "operator": "In"}},
        {"action": otherwise, "onExitCodes": {**codes, "operator": "NotIn"}},
    ]
    return {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules}}


def _labels(site: Site, request: LaunchRequest) -> dict[str, str]:
    out = {names.MANAGED: "sojourn", names.COMPONENT: "run", "sojourn-claim": names.claim_label(site)}
    if queue := chosen(site, request).get("queue"):
        out["kueue.x-k8s.io/queue-name"] = names.label(str(queue))
    return out


def _pod(site: Site, words: Sequence[str], request: LaunchRequest, gpus: Mapping[str, Any]) -> dict[str, Any]:
    options = chosen(site, request)
    grace_s = max(GRACE_S, math.ceil(2 * (request.write_s or _WRITE_S)) + _SPARE_S)
    lead = [("SOJOURN_SEAT_LEAD_S", grace_s - _SPARE_S), ("SOJOURN_SEAT_GRACE_S", grace_s - _SPARE_S)]
    node = {"name": "SOJOURN_SEAT_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": str(options.get("image") or IMAGE),
        "command": list(words),
        "env": [*registry(), node, *({"name": name, "value": str(value)} for name, value in lead)],
        "volumeMounts": [{"name": "sojourn", "mountPath": names.MOUNT}],
        "resources": _resources(request, options),
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "volumes": [{"name": "sojourn", "persistentVolumeClaim": {"claimName": names.claim_of(site)}}],
        "containers": [container],
        **gpus,
    }
    if shm := options.get("shm"):
        spec["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _size(site, shm)}})
        container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    for key, field in (("priority_class", "priorityClassName"), ("service_account", "serviceAccountName")):
        if options.get(key):
            spec[field] = str(options[key])
    if options.get("service_account"):
        del spec["automountServiceAccountToken"]
    if tolerations := options.get("tolerations"):
        spec["tolerations"] = _listed(site, "tolerations", tolerations)
    if secrets := options.get("pull_secrets"):
        spec["imagePullSecrets"] = [{"name": str(one)} for one in _listed(site, "pull_secrets", secrets)]
    if selector := options.get("node_selector"):
        if not isinstance(selector, Mapping):
            raise BadPodSetting(site=site.name, name="node_selector", why="write labels and their values: a mapping")
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **{key: str(value) for key, value in selector.items()}}
    return with_tmp(overlaid(secured(spec, site), options.get("pod") or {}, site.name, "pod"))


def _resources(request: LaunchRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    need = request.spec.get("resources") or {}
    requests, limits = dict[str, str](), dict[str, str]()
    if cpus := str(need.get("cpus") or "").rstrip("+"):
        requests["cpu"] = cpus
    if memory := str(need.get("memory") or ""):
        requests["memory"] = f"{math.ceil(float(memory.rstrip('+')) * 1024)}Mi"
        if not memory.endswith("+"):
            limits["memory"] = requests["memory"]
    if accelerators := need.get("accelerators"):
        limits[str(options.get("gpu_resource") or "nvidia.com/gpu")] = str(accelerators[0]).rpartition(":")[2]
    return {key: value for key, value in (("requests", requests), ("limits", limits)) if value}


def _listed(site: Site, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadPodSetting(site=site.name, name=name, why="write a list")
    return value


def _size(site: Site, value: Any) -> str:
    import re

    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?([KMGT]i?)?", str(value)):
        raise BadPodSetting(site=site.name, name="shm", why=f"{value!r} is not a size such as 8Gi")
    return str(value)
