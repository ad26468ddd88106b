"""Slurm's words about a job, in ours: whether it waits and for what, how it ended, and what to do about it.

Source: squeue(1) JOB REASON CODES and sacct(1) JOB STATE CODES of Slurm 22.05 (2026-11); its real behaviour is in
tests/lab/slurm and its tests.
"""

from __future__ import annotations

import math
import re

from sojourn.backends.slurm.output import ACTIVE, Queued, Record, Said
from sojourn.core.ports import SchedulerStatus
from sojourn.core.values import Pulse, State

_NO_OUTPUT = "0:53"  # the folder or the output file of the job could not be opened on its node
NOT_SHARED = 73  # EX_CANTCREAT: the batch script cannot use the run's folder on its node, or finds no Python there

_REASONS = {
    "None": "the scheduler has not considered it yet",
    "Resources": "it is next in line, waiting for free nodes",
    "Priority": "jobs with a higher priority come first",
    "SchedDefer": "this cluster does not start jobs at submission; the scheduler looks again soon",
    "BeginTime": "Slurm holds it until {starts}, as it does with a requeued job",
    "Cleaning": "Slurm is still cleaning up after its last start",
    "Prolog": "its node is being prepared",
    "Dependency": "it is waiting for another job to end",
    "DependencyNeverSatisfied": "it will never start: the job it depends on did not end as required; cancel it",
    "JobArrayTaskLimit": "its sweep runs as many cells as it may; it starts when one of them ends",
    "JobHeldUser": "it is held by its owner (scontrol release {id})",
    "JobHeldAdmin": "an administrator holds it, and only an administrator can release it",
    "JobHoldMaxRequeue": "it was requeued so often that Slurm holds it (scontrol release {id})",
    "job requeued in held state": "it was requeued and is held (scontrol release {id})",
    "launch failed requeued held": "it failed to start, so Slurm holds it (scontrol release {id})",
    "Partition": "its partition does not accept this job; it will never start: set another `partition`",
    "PartitionConfig": "its partition does not accept this job; it will never start: set another `partition`",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": "it requests more nodes than its partition has or allows; it will never start while that"
    " is so",
    "PartitionTimeLimit": "it requests more time than its partition allows; it will never start: lower `time`",
    "ReqNodeNotAvail": "a node it needs is not available (down, drained or reserved)",
    "NodeDown": "a node it needs is down",
    "FrontEndDown": "every front end of the cluster is down",
    "BadConstraints": "no node matches its request; it will never start: change `constraint`, gres or memory",
    "Reservation": "it is waiting for its reservation",
    "ReservationDeleted": "its reservation was deleted; it will never start: set another, or none",
    "Licenses": "it is waiting for a licence",
    "InvalidAccount": "Slurm does not know its account; it will never start: set `account`",
    "InvalidQOS": "Slurm does not know its quality of service; it will never start: set `qos`",
    "AccountNotAllowed": "its account may not use this partition; it will never start",
    "QOSNotAllowed": "its quality of service is not allowed there; it will never start",
    "QOSUsageThreshold": "its account has used too much for this quality of service; it starts when usage has decayed",
    "AccountingPolicy": "the cluster's accounting policy does not let it start: check its account and limits",
    "MaxMemPerLimit": "it requests more memory per CPU or node than allowed; it will never start: lower `mem`",
    "FedJobLock": "another cluster of the federation is considering it",
    "BurstBufferResources": "it is waiting for space in the burst buffer",
    "BurstBufferStageIn": "its data is being staged into the burst buffer",
    "BurstBufferOperation": "a burst buffer operation failed; an administrator must look into it",
    "BlockMaxError": "the nodes it needs failed too often; an administrator must look into it",
    "BlockFreeAction": "the nodes it needs are being freed",
    "PowerNotAvail": "it is waiting for power: the cluster has a power cap",
    "PowerReserved": "it is waiting for power that is reserved for other jobs",
    "MaxPoweredUpNodes": "the cluster has powered up as many nodes as it may",
    "MpiPortsBusy": "it is waiting for network ports on its nodes to become free",
    "DeadLine": "it cannot end before its `deadline`; it will never start",
    "InactiveLimit": "it was idle for longer than the cluster allows",
    "TimeLimit": "it reached its time limit",
    "NonZeroExitCode": "it ended with an error",
    "OutOfMemory": "it used more memory than it requested",
    "SystemFailure": "Slurm itself failed; an administrator must look into it",
    "JobLaunchFailure": "it failed to start",
}
# Limits of accounts and qualities of service have regular names: QOSGrpCPUMinutesLimit, AssocMaxGRESPerNode,
# MaxJobsPerAccount ... ("Reasons" of Slurm's page on resource limits, 22.05 to 24.11, 2026-11).
_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc(?:iation)?|(?=Max))(?P<kind>Grp|Max|Min|(?=Job|Resource|Time))"
    r"(?P<what>SubmitJobs?|Jobs?|Cpu|CPU|Node|Mem(?:ory)?|GRES|License|BB|Energy|Billing|Wall(?:Duration)?|Resource|Time"
    r"|Unknown)s?(?P<used>Run)?(?P<minutes>Minutes?)?(?:Per(?P<per>Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)
_WHAT = {
    "Cpu": "CPUs", "CPU": "CPUs", "Node": "machines", "Mem": "memory", "Memory": "memory", "GRES": "GPUs (gres)",
    "License": "licences", "BB": "burst buffer", "Energy": "energy", "Billing": "billed units", "Unknown": "a resource",
    "Job": "jobs", "SubmitJob": "submitted jobs", "Wall": "time", "WallDuration": "time", "Resource": "a resource",
    "Time": "time",
}  # fmt: skip
_END = {
    "TIMEOUT": (State.TIMEOUT, "it reached its time limit{limit}: request more with `time`, or let it save sooner"),
    "DEADLINE": (State.TIMEOUT, "it could not end before its `deadline`"),
    "PREEMPTED": (State.PREEMPTED, "Slurm gave its node to a job with a higher priority"),
    "NODE_FAIL": (State.LOST, "its node{nodes} failed"),
    "BOOT_FAIL": (State.LOST, "its node{nodes} did not boot"),
    "CANCELLED": (State.CANCELLED, "it was cancelled in Slurm (scancel){by}"),
    "REVOKED": (State.CANCELLED, "another cluster of the federation runs it"),
}


def word(native: str, said: Said) -> SchedulerStatus:
    """The status of the job `native`."""
    if said.trouble:
        return SchedulerStatus(Pulse.UNKNOWN, reason=f"Slurm does not answer: {said.trouble}")
    queued, record = said.queue.get(native), said.records.get(native)
    if queued is not None and queued.state in ACTIVE:
        if queued.state in ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"):
            return SchedulerStatus(Pulse.ALIVE)
        return SchedulerStatus(Pulse.ALIVE, is_waiting=True, reason=waits(native, queued))
    if record is not None and record.state not in ACTIVE:
        return _ended(native, record, queued)
    if queued is not None and said.keeps_records:
        return SchedulerStatus(Pulse.GONE, is_late=True, reason="Slurm has not recorded yet how it ended")
    if queued is not None:
        return _ended(native, Record(queued.state, "", queued.reason, "", queued.limit, queued.nodes), queued)
    if record is not None:
        return SchedulerStatus(Pulse.GONE, is_late=True, reason="Slurm's accounting lags behind")
    none = "Slurm no longer knows this job" + ("" if said.keeps_records else ", and this cluster keeps no accounting")
    # A task gets its own record when it starts; before, it is only a number in its array.
    never = f"it was cancelled in Slurm (scancel) before it began (Slurm job {native})"
    is_of_known = any(job.startswith(native.partition("_")[0] + "_") for job in (*said.queue, *said.records))
    unbegun = never if "_" in native and is_of_known else ""
    return SchedulerStatus(Pulse.GONE, reason=f"{none} (job {native}): how it ended is not known", if_unbegun=unbegun)


def waits(native: str, queued: Queued) -> str:
    """Why it waits, in words, with Slurm's own in brackets."""
    reason = queued.reason.strip("()")
    if queued.state in ("SUSPENDED", "STOPPED"):
        return f"Slurm has suspended it (job {native})"
    if queued.state in ("REQUEUE_HOLD", "SPECIAL_EXIT"):
        reason = reason if reason in _REASONS else "job requeued in held state"
    text = _REASONS.get(reason.partition(",")[0].strip()) or _REASONS.get(reason) or _limit(reason)
    starts = queued.starts.replace("T", " ") or "later"
    if text is None:
        text = "it is waiting"
    elif queued.starts and not any(sign in text for sign in ("{starts}", "never", "{id}", "administrator")):
        text += f"; expected at {starts}"
    return f"{text.format(id=native, starts=starts)} (Slurm job {native}: {reason or queued.state})"


def _limit(reason: str) -> str | None:
    """A limit of an account or a quality of service, in words; None if it is not a known one."""
    found = _LIMIT.fullmatch(reason)
    if not found:
        return None
    whose, kind, what, used, minutes, per = found.group("whose", "kind", "what", "used", "minutes", "per")
    name = _WHAT[what.removesuffix("s")]
    if minutes:
        name = f"minutes of {name}" + (" reserved by running jobs" if used else "")
    limit = "its quality of service" if whose == "QOS" else "its account"
    if kind == "Min":
        return f"{limit} accepts only larger requests ({name}); it will never start: request more"
    if per in ("Job", "Node"):
        return f"{limit} does not allow that much ({name} per {per.lower()}); it will never start: request less"
    each = " per user" if per == "User" else ""
    if minutes and not used:
        return f"{limit} has used up its {name}{each}; it starts when more is granted or past usage has decayed"
    return f"{limit} has reached its limit of {name}{each}; it starts when other jobs end"


def _ended(native: str, record: Record, queued: Queued | None) -> SchedulerStatus:
    told = f"Slurm job {native}: {record.state}" + (f" {record.exit}" if record.exit not in ("", "0:0") else "")
    reason = record.reason or (queued.reason if queued is not None else "")
    state, text = _cause(record, reason)
    if reason == "JobLaunchFailure":
        told += ", JobLaunchFailure"
    return SchedulerStatus(Pulse.GONE, state=state, reason=f"{text} ({told})", if_oom=f"{_memory(record)} ({told})")


def _cause(record: Record, reason: str) -> tuple[State | None, str]:
    if record.is_oom:
        return State.OOM, _memory(record)
    if reason == "JobLaunchFailure" and record.exit.endswith(":9"):
        # Without control groups Slurm kills a job that uses too much in this very way
        # (JobAcctGatherParams=OverMemoryKill).
        return State.OOM, f"Slurm killed it, as it does for memory where it has no control groups: {_memory(record)}"
    if record.exit == _NO_OUTPUT:
        return State.LOST, (
            "Slurm could not start it on its node, because it could not open logs/ in its root: set `base` to a file"
            " system that all nodes share, and check free space and quota there"
        )
    if reason == "JobLaunchFailure":
        return State.LOST, "Slurm could not start it on its node: look at logs/slurm-*.out in its root"
    if record.state in _END:
        state, text = _END[record.state]
        limit, nodes = (f" of {record.limit}" if record.limit else ""), (f" {record.nodes}" if record.nodes else "")
        by = f" by {record.by}" if record.by and record.by != "0" else ""
        if record.state == "CANCELLED" and reason in ("DependencyNeverSatisfied", "Dependency"):
            text = "the job it depends on (`after`) did not succeed, so Slurm removed it from the queue"
        return state, text.format(limit=limit, nodes=nodes, by=by)
    if record.exit == f"{NOT_SHARED}:0":
        return (
            State.FAILED,
            "its node cannot see its folder (or the folder is in TMPDIR), or lacks its Python; logs/slurm-*.out there"
            " says which: set `base` to a file system that all nodes share, `python` to one that they have",
        )
    if record.exit == "75:0":
        return State.PREEMPTED, "Slurm reclaimed its node and does not requeue this job: resume it"
    if record.is_killed:
        return State.KILLED, "it was killed (signal 9): by hand, for memory, or at the end of its grace period"
    return None, "it left no record of how it ended, so it counts as lost"


def _memory(record: Record) -> str:
    most = max(record.max_rss_bytes, record.asked_bytes)
    if not most:
        return "it used more memory than it requested: request more with `mem`"
    used = f" (peak seen: {_mib(record.max_rss_bytes)})" if record.max_rss_bytes else ""
    asked = f"the {_mib(record.asked_bytes)} it requested" if record.asked_bytes else "it requested"
    return f"it used more memory than {asked}{used}: request --mem={_mib(1.2 * most)}"


def _mib(size: float) -> str:
    return f"{math.ceil(size / (1 << 20))}M"


_HINTS = (
    (
        "accounting/qos policy",
        "sacctmgr show qos format=name,maxwall,maxtres,maxsubmitpu; sacctmgr show assoc user=$USER  (limits you have)",
    ),
    ("account", "sacctmgr -n show assoc user=$USER format=account,partition,qos  (then set `account`)"),
    ("partition", "sinfo -s  (lists partitions; set `partition` in [sites.NAME.sbatch])"),
    ("qos", "sacctmgr -n show assoc user=$USER format=account,partition,qos  (then set `qos`)"),
    ("memory", "sinfo -o '%P %m %c %G'  (memory in MB, CPUs and GPUs of the nodes; request less)"),
    ("node configuration", "sinfo -o '%P %m %c %G'  (memory in MB, CPUs and GPUs of the nodes; request less)"),
    ("gres", "sinfo -o '%P %G'  (valid values of `gres`)"),
    ("feature", "sinfo -o '%P %f'  (valid values of `constraint`)"),
    ("time limit", "sinfo -o '%P %l'  (the maximum `time`)"),
    ("invalid", "check [sites.NAME.sbatch] in your settings: its names and values are sbatch's own"),
    (
        "unrecognized option",
        "check [sites.NAME.sbatch] in your settings: its names are sbatch's own, without the dashes",
    ),
)


def forecast(said: str) -> str:
    """The start forecast by `sbatch --test-only`, in words; "" without one."""
    found = re.search(
        r"to start at (\S+) (?:using|a using) (\d+) processors on (?:nodes )?(.+?) in partition (\S+)", said
    )
    if not found:
        return ""
    at = found[1].replace("T", " ")
    return f"Slurm would start it at {at} (cluster time) on {found[3]}, {found[2]} CPUs, in partition {found[4]}"


def hint(said: str, site: str) -> str:
    """The command that shows valid values, for an error of sbatch."""
    low = said.lower()
    found = next((text for sign, text in _HINTS if sign in low), "sojourn doctor {site}")
    return found.replace("{site}", site).replace("NAME", site)
