"""What a Job, its pods and their nodes say, as our words: does it wait and for what, how did it end, what to do.

A pod that cannot be looked at is not dead: its node may be gone, or cut off and at work. Source: tests/kube/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.backends.kube import pending
from sojourn.backends.kube.names import CONTAINER
from sojourn.core.ports import SchedulerStatus
from sojourn.core.values import Pulse, State

Object = Mapping[str, Any]
TAKEN_OUT = "sojourn/cancelled"  # indexes that never begin, as Kubernetes writes ranges
_INDEX = "batch.kubernetes.io/job-completion-index"
_TAKEN = {
    "PreemptionByScheduler": "the cluster gave its node to pods of a higher priority",
    "DeletionByTaintManager": "its node is not reached any more, or was reserved",
    "EvictionByEvictionAPI": "it was evicted: its node is being drained",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ran short of memory or disk, or shut down",
}


@dataclass(frozen=True)
class Seen:
    """What one poll brought. `events`: messages of refusals to create pods, by Job."""

    jobs: Mapping[str, Object] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Object]] = field(default_factory=dict)  # by Job
    unready: frozenset[str] | None = frozenset()  # nodes that are not heard; None where we may not look
    events: Mapping[str, str] = field(default_factory=dict)


def split(native: str) -> tuple[str, str]:
    """(the Job, the index in it or "") of a handle's native."""
    name, _, index = native.partition(".")
    return name, index


def pods_of(native: str, seen: Seen) -> list[Object]:
    """The pods of a handle, the newest last."""
    name, index = split(native)
    found = [
        pod
        for pod in seen.pods.get(name, ())
        if not index or str((pod["metadata"].get("labels") or {}).get(_INDEX)) == index
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


def word(native: str, seen: Seen) -> SchedulerStatus:
    """How the Job, or the index of one, stands."""
    name, index = split(native)
    job, pods = seen.jobs.get(name), pods_of(native, seen)
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
    for pod in living:
        if (pod.get("status") or {}).get("phase") == "Running":
            return _running(native, pod, seen)
    if job is None:
        if living:
            return SchedulerStatus(
                Pulse.ALIVE, is_waiting=True, reason=f"Job {name} was deleted, and its pod is ending"
            )
        gone = f"Job {name} is not there any more: somebody deleted it, or its time to live was over"
        return SchedulerStatus(Pulse.GONE, reason=gone, if_unbegun=f"Job {name} was deleted before it began")
    if (over := _over(native, job, pods, index)) is not None:
        return over
    if index and index in taken_out(job) and not living:
        text = f"its cell was cancelled (index {index} of Job {name})"
        return SchedulerStatus(Pulse.GONE, state=State.CANCELLED, reason=text, if_unbegun=text)
    if living:
        why, _ = pending.reason(living[-1])
        return _waits(f"{why} (pod {living[-1]['metadata']['name']})")
    if (job.get("spec") or {}).get("suspend"):
        return _waits(f"Job {name} is suspended: its queue has not admitted it yet, or somebody holds it")
    if name in seen.events:
        return _waits(f"the cluster refuses to create its pod: {pending.brief(seen.events[name])}")
    if index:
        return _waits("its sweep runs as many cells as it may; it starts when one of them ends")
    return _waits(f"Job {name} has no pod yet")


def _running(native: str, pod: Object, seen: Seen) -> SchedulerStatus:
    name, node = pod["metadata"]["name"], str((pod.get("spec") or {}).get("nodeName") or "")
    if seen.unready is not None and node in seen.unready:
        why = f"node {node} does not answer the cluster, so how pod {name} fares there is unknown"
        return SchedulerStatus(Pulse.UNKNOWN, reason=why)
    if seen.unready is None and "deletionTimestamp" in pod["metadata"] and _taken(pod) == "DeletionByTaintManager":
        why = f"the cluster took pod {name} from node {node}, which may be cut off; you may not look at nodes"
        return SchedulerStatus(Pulse.UNKNOWN, reason=why)
    return SchedulerStatus(Pulse.ALIVE)


def _over(native: str, job: Object, pods: Sequence[Object], index: str) -> SchedulerStatus | None:
    """How it ended; None while it has not."""
    status = job.get("status") or {}
    ends = {one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"}
    if index:
        if index in expand(str(status.get("completedIndexes") or "")):
            return SchedulerStatus(Pulse.GONE, reason=f"index {index} of Job {split(native)[0]} is complete")
        is_failed = index in expand(str(status.get("failedIndexes") or "")) or "Failed" in ends
    else:
        if "Complete" in ends:
            return SchedulerStatus(Pulse.GONE, reason=f"Job {native} is complete")
        is_failed = "Failed" in ends
    if not is_failed:
        return None
    end = ends.get("Failed") or {}
    if end.get("reason") == "DeadlineExceeded":
        text = "it reached the Job's activeDeadlineSeconds, and its pods were deleted"
        return SchedulerStatus(Pulse.GONE, state=State.TIMEOUT, reason=f"{text} (Job {split(native)[0]})")
    return _ended(native, pods, str(end.get("message") or end.get("reason") or "it failed"))


def _ended(native: str, pods: Sequence[Object], said: str) -> SchedulerStatus:
    if not pods:
        return SchedulerStatus(Pulse.GONE, reason=f"Job {native} failed, and its pod is not there any more: {said}")
    pod = pods[-1]
    name, end = pod["metadata"]["name"], terminated(pod)
    told = (
        f"(pod {name}{': ' + str(end.get('reason')) if end.get('reason') else ''}, exit status {end.get('exitCode')})"
    )
    memory = f"it used more memory than its limit: request more with `memory` {told}"
    if end.get("reason") == "OOMKilled":
        return SchedulerStatus(Pulse.GONE, state=State.OOM, reason=memory, if_oom=memory)
    if taken := _taken(pod):
        text = f"{_TAKEN.get(taken, 'the cluster took its pod away')} {told}"
        return SchedulerStatus(Pulse.GONE, state=State.PREEMPTED, reason=text, if_oom=memory)
    if (pod.get("status") or {}).get("reason") == "Evicted":
        text = f"its node evicted it: {pending.brief(str(pod['status'].get('message') or ''))} {told}"
        return SchedulerStatus(Pulse.GONE, state=State.PREEMPTED, reason=text, if_oom=memory)
    if end.get("exitCode") == 73:
        return SchedulerStatus(Pulse.GONE, state=State.FAILED, reason=f"its pod refused to start; see its log {told}")
    if end.get("exitCode") in (137, 143):
        text = f"it was killed (signal {int(end['exitCode']) - 128}) {told}"
        return SchedulerStatus(Pulse.GONE, state=State.KILLED, reason=text, if_oom=memory)
    return SchedulerStatus(Pulse.GONE, reason=f"{pending.brief(said)} {told}", if_oom=memory)


def terminated(pod: Object) -> Mapping[str, Any]:
    """How its training container ended; {} where it has not."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if one.get("name") == CONTAINER:
            return (one.get("state") or {}).get("terminated") or {}
    return {}


def _taken(pod: Object) -> str:
    """Why the cluster marked it to be taken away; "" where it did not."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            return str(one.get("reason") or "DisruptionTarget")
    return ""


def _waits(reason: str) -> SchedulerStatus:
    return SchedulerStatus(Pulse.ALIVE, is_waiting=True, reason=reason)


def taken_out(job: Object) -> set[str]:
    """Indexes that were cancelled by us."""
    return expand(str((job["metadata"].get("annotations") or {}).get(TAKEN_OUT) or ""))


def expand(ranges: str) -> set[str]:
    """{"0", "2", "3", "4"} of 0,2-4."""
    out = set[str]()
    for part in filter(None, ranges.split(",")):
        first, dash, last = part.partition("-")
        out |= {str(n) for n in range(int(first), int(last if dash else first) + 1)}
    return out
