"""What Kubernetes keeps: pods, jobs, events, claims, nodes as JSON. Source: API reference v1.30 and later (2026-11)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.diagnose.facts import keeper
from sojourn.diagnose.facts.table import Probe, Reader

_GPU = "nvidia.com/gpu"


def _kube(probe: Probe) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for item in _items(probe.text):
        kind = item.get("kind", "")
        if kind == "Pod":
            found.update(_pod(item))
        elif kind == "Job":
            found["k.job_cond"] = _conditions(item)
            policy = _at(item, "spec", "template", "spec", "restartPolicy")
            if policy:
                found["k.policy"] = policy
        elif kind == "Event":
            found.setdefault("k.events", []).append(
                f"{item.get('reason', '')}: {item.get('message', item.get('note', ''))}"
            )
        elif kind == "PersistentVolumeClaim":
            found["k.pvc"] = f"{_at(item, 'status', 'phase')} {','.join(_at(item, 'spec', 'accessModes') or [])}"
        elif kind == "Node":
            cards = str(_at(item, "status", "allocatable", _GPU) or "0")
            found["k.alloc_gpu"] = found.get("k.alloc_gpu", 0) + (int(cards) if cards.isdigit() else 0)
    return found


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    status = pod.get("status") or {}
    found: dict[str, Any] = {
        "k.phase": status.get("phase", ""),
        "k.reason": status.get("reason"),
        "k.message": status.get("message"),
        "k.cond": _conditions(pod),
    }
    containers: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    ends = [end for c in containers if (end := _at(c, "lastState", "terminated") or _at(c, "state", "terminated"))]
    bad = [end for end in ends if end.get("exitCode")] or ends
    if containers:
        found["k.restarts"] = sum(int(c.get("restartCount", 0)) for c in containers)
        found["k.last"] = (
            {k: bad[0][k] for k in ("reason", "exitCode", "signal", "message", "finishedAt") if k in bad[0]}
            if bad
            else None
        )
        over = [end for c in containers if (end := _at(c, "state", "terminated"))]
        if len(over) == len(containers):
            worst = next((end for end in over if end.get("exitCode")), over[0])
            found.update({"run.alive": False, **keeper.status(worst.get("exitCode"), worst.get("signal"))})
    waits = [wait for c in containers if (wait := _at(c, "state", "waiting"))]
    if waits:
        found["k.wait"] = waits[0].get("reason", "")
        if waits[0].get("message"):
            found.setdefault("k.events", []).append(f"{waits[0].get('reason', '')}: {waits[0]['message']}")
    specs = _at(pod, "spec", "containers") or []
    limit = _memory_limit(specs, [str(c.get("name")) for c in containers if _ended_badly(c)])
    if limit is not None:
        found["k.mem_limit"] = limit
    if specs:
        limits = [str(limit) for c in specs if (limit := (_at(c, "resources", "limits") or {}).get(_GPU)) is not None]
        found["k.spec_gpu"] = sum(int(word) for word in limits if word.isdigit()) if limits else None
    for line in found["k.cond"]:
        if line.startswith("PodScheduled False"):
            found.setdefault("k.events", []).append(line)
    return found


def _ended_badly(container: Mapping[str, Any]) -> bool:
    end = _at(container, "lastState", "terminated") or _at(container, "state", "terminated") or {}
    return bool(end.get("exitCode"))


def _memory_limit(specs: Sequence[Mapping[str, Any]], bad: Sequence[str]) -> int | None:
    """limits.memory in bytes: of a container that ended badly, else of the first that has one."""
    sizes = {str(c.get("name")): _bytes(str(_at(c, "resources", "limits", "memory") or "")) for c in specs}
    known = {name: size for name, size in sizes.items() if size is not None}
    return next((known[name] for name in bad if name in known), next(iter(known.values()), None))


def _bytes(quantity: str) -> int | None:
    """A quantity such as 16Gi, 512M, 1e9 or 128974848000m. Source: apimachinery/pkg/api/resource (2026-11)."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?)(m|[kMGTPE]|[KMGTPE]i)?", quantity)
    if not found:
        return None
    unit = found.group(2) or ""
    scale = 1000.0 ** "kMGTPE".find(unit[0]) * 1000 if unit in set("kMGTPE") else 1.0
    if unit.endswith("i"):
        scale = 1024.0 ** ("KMGTPE".index(unit[0]) + 1)
    return int(float(found.group(1)) * (0.001 if unit == "m" else scale))


def _conditions(item: Mapping[str, Any]) -> list[str]:
    rows = _at(item, "status", "conditions") or []
    return [" ".join(str(row.get(key, "")) for key in ("type", "status", "reason", "message")).strip() for row in rows]


def _items(text: str) -> list[dict[str, Any]]:
    """Objects of one JSON document, a List, or a stream of watch events, one a line."""
    found: list[dict[str, Any]] = []
    for part in [text, *text.splitlines()]:
        try:
            value = json.loads(part)
        except ValueError:
            continue
        if isinstance(value, dict):
            if isinstance(value.get("items"), list):
                inner = str(value.get("kind", "")).removesuffix("List")
                found += [{"kind": inner, **one} for one in value["items"] if isinstance(one, dict)]
            elif isinstance(value.get("object"), dict):
                found.append(value["object"])
            else:
                found.append(value)
        if part is text:
            break
    return found


def _at(value: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _describe(probe: Probe) -> Mapping[str, Any]:
    """`kubectl describe pod`: the lines of events, and the last state."""
    found: dict[str, Any] = {}
    if last := re.search(
        r"Last State:\s+Terminated\n\s+Reason:\s+(\w+)(?:\n\s+Message:.*)?\n\s+Exit Code:\s+(\d+)", probe.text
    ):
        found["k.last"] = {"reason": last.group(1), "exitCode": int(last.group(2))}
    if phase := re.search(r"^Status:\s+(\w+)", probe.text, re.M):
        found["k.phase"] = phase.group(1)
    if reason := re.search(r"^Reason:\s+(\w+)", probe.text, re.M):
        found["k.reason"] = reason.group(1)
    events = re.findall(r"^\s+(?:Warning|Normal)\s+(\w+)\s+\S+.*?\s{2,}(\S.*)$", probe.text, re.M)
    if events:
        found["k.events"] = [f"{reason}: {message}" for reason, message in events]
    return found


READS = (
    Reader(r"kubectl.*json|^k8s|pods?\.json|^pod$|^job$|^kube", _kube, r'^\s*\{\s*"(?:apiVersion|kind|items|type)"'),
    Reader(r"kubectl describe", _describe, r"(?m)^Controlled By:|^Containers:$"),
)
