"""What Slurm says of a job, as our words: does it wait and for what, how did it end, and what to do about it.

Source: squeue(1) JOB REASON CODES and sacct(1) JOB STATE CODES of Slurm 22.05 (2026-11); what it really did is in
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
    "None": "the scheduler has not looked at it yet",
    "Resources": "it is next: it waits for machines to become free",
    "Priority": "other jobs come first",
    "SchedDefer": "the scheduler starts nothing at once on this cluster; it looks again soon",
    "BeginTime": "Slurm holds it until {starts}; a job that was put back waits so for a while",
    "Cleaning": "Slurm is still cleaning up after its last start",
    "Prolog": "the machine is being made ready",
    "Dependency": "it waits for another job to end",
    "DependencyNeverSatisfied": "it will never start: the job that it waits for did not end as it should; cancel it",
    "JobArrayTaskLimit": "as many cells of its sweep run as may at once; it comes when one of them is over",
    "JobHeldUser": "it is held by its owner (scontrol release {id})",
    "JobHeldAdmin": "an administrator holds it; only they can release it",
    "JobHoldMaxRequeue": "it was put back so often that Slurm holds it (scontrol release {id})",
    "job requeued in held state": "it was put back and is held (scontrol release {id})",
    "launch failed requeued held": "its start failed, so Slurm holds it (scontrol release {id})",
    "Partition": "its partition takes no such job; it will never start: set another `partition`",
    "PartitionConfig": "its partition takes no such job; it will never start: set another `partition`",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": "it asks for more machines than its partition allows, or has; it will never start while"
    " that is so",
    "PartitionTimeLimit": "it asks for more time than its partition allows; it will never start: lower `time`",
    "ReqNodeNotAvail": "a machine that it needs is not available (down, drained or reserved)",
    "NodeDown": "a machine that it needs is down",
    "FrontEndDown": "no front end of the cluster is up",
    "BadConstraints": "no machine fits what it asks for; it will never start: change `constraint`, gres or memory",
    "Reservation": "it waits for its reservation",
    "ReservationDeleted": "its reservation was deleted; it will never start: set another, or none",
    "Licenses": "it waits for a licence",
    "InvalidAccount": "Slurm does not know its account; it will never start: set `account`",
    "InvalidQOS": "Slurm does not know its quality of service; it will never start: set `qos`",
    "AccountNotAllowed": "its account may not use this partition; it will never start",
    "QOSNotAllowed": "its quality of service is not allowed there; it will never start",
    "QOSUsageThreshold": "its account has used too much for this quality of service; it starts when that has faded",
    "AccountingPolicy": "the cluster's accounting does not let it start: ask for its account and limits",
    "MaxMemPerLimit": "it asks for more memory a CPU or machine than it may; it will never start: lower `mem`",
    "FedJobLock": "another cluster of the federation is looking at it",
    "BurstBufferResources": "it waits for room in the burst buffer",
    "BurstBufferStageIn": "its data are being brought into the burst buffer",
    "BurstBufferOperation": "the burst buffer failed it; an administrator has to look",
    "BlockMaxError": "the machines that it needs failed too often; an administrator has to look",
    "BlockFreeAction": "the machines that it needs are being freed",
    "PowerNotAvail": "it waits for electric power: the cluster has a limit on it",
    "PowerReserved": "it waits for electric power, which is reserved for others",
    "MaxPoweredUpNodes": "as many machines are switched on as may be",
    "MpiPortsBusy": "it waits for network ports of the machines to become free",
    "DeadLine": "it cannot end before its `deadline`; it will never start",
    "InactiveLimit": "it was idle for longer than the cluster allows",
    "TimeLimit": "it reached its time limit",
    "NonZeroExitCode": "it ended with an error",
    "OutOfMemory": "it used more memory than it asked for",
    "SystemFailure": "Slurm itself failed; an administrator has to look",
    "JobLaunchFailure": "its start failed",
}
# Limits of accounts and qualities of service are named by rule: QOSGrpCPUMinutesLimit, AssocMaxGRESPerNode,
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
    "TIMEOUT": (State.TIMEOUT, "it reached its time limit{limit}: ask for more with `time`, or let it save sooner"),
    "DEADLINE": (State.TIMEOUT, "it could not end before its `deadline`"),
    "PREEMPTED": (State.PREEMPTED, "Slurm took its machine for a job that comes first"),
    "NODE_FAIL": (State.LOST, "its machine{nodes} failed"),
    "BOOT_FAIL": (State.LOST, "its machine{nodes} did not boot"),
    "CANCELLED": (State.CANCELLED, "it was cancelled in Slurm (scancel){by}"),
    "REVOKED": (State.CANCELLED, "another cluster of the federation runs it"),
}


def word(native: str, said: Said) -> SchedulerStatus:
    """What is said of the job `native`."""
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
        return SchedulerStatus(Pulse.GONE, is_late=True, reason="Slurm has not written down yet how it ended")
    if queued is not None:
        return _ended(native, Record(queued.state, "", queued.reason, "", queued.limit, queued.nodes), queued)
    if record is not None:
        return SchedulerStatus(Pulse.GONE, is_late=True, reason="Slurm's accounting lags behind")
    none = "Slurm knows no such job any more" + ("" if said.keeps_records else ", and this cluster keeps no accounting")
    # A task gets a record of its own when it begins; until then it is but a number of its array.
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
        text = "it waits"
    elif queued.starts and not any(sign in text for sign in ("{starts}", "never", "{id}", "administrator")):
        text += f"; expected at {starts}"
    return f"{text.format(id=native, starts=starts)} (Slurm job {native}: {reason or queued.state})"


def _limit(reason: str) -> str | None:
    """A limit of an account or a quality of service, in words; None where it is none that is known."""
    found = _LIMIT.fullmatch(reason)
    if not found:
        return None
    whose, kind, what, used, minutes, per = found.group("whose", "kind", "what", "used", "minutes", "per")
    name = _WHAT[what.removesuffix("s")]
    if minutes:
        name = f"minutes of {name}" + (" that running jobs have set aside" if used else "")
    limit = "its quality of service" if whose == "QOS" else "its account"
    if kind == "Min":
        return f"{limit} takes only jobs that ask for more ({name}); it will never start: ask for more"
    if per in ("Job", "Node"):
        return f"{limit} does not allow so much ({name} a {per.lower()}); it will never start: ask for less"
    each = " a user" if per == "User" else ""
    if minutes and not used:
        return f"{limit} has used up its {name}{each}; it starts when more are given or past use has faded"
    return f"{limit} has reached its limit of {name}{each}; it starts when other jobs have ended"


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
        # Without control groups Slurm kills what uses too much in this very way (JobAcctGatherParams=OverMemoryKill).
        return State.OOM, f"Slurm killed it, as it does for memory where it uses no control groups: {_memory(record)}"
    if record.exit == _NO_OUTPUT:
        return State.LOST, (
            "Slurm could not start it on its machine, where logs/ of its root was not to be opened: set `base` to a"
            " file system that all nodes share, and look for room and quota there"
        )
    if reason == "JobLaunchFailure":
        return State.LOST, "Slurm could not start it on its machine: look at logs/slurm-*.out in its root"
    if record.state in _END:
        state, text = _END[record.state]
        limit, nodes = (f" of {record.limit}" if record.limit else ""), (f" {record.nodes}" if record.nodes else "")
        by = f" by {record.by}" if record.by and record.by != "0" else ""
        if record.state == "CANCELLED" and reason in ("DependencyNeverSatisfied", "Dependency"):
            text = "what it waited for (`after`) did not succeed, so Slurm took it from the queue"
        return state, text.format(limit=limit, nodes=nodes, by=by)
    if record.exit == f"{NOT_SHARED}:0":
        return (
            State.FAILED,
            "its node does not see its folder (or it lies in TMPDIR), or lacks its Python; logs/slurm-*.out in it says"
            " which: set `base` to a file system that all nodes share, `python` to one that they have",
        )
    if record.exit == "75:0":
        return State.PREEMPTED, "Slurm wanted its machine back and does not put this job back into the queue: resume it"
    if record.is_killed:
        return State.KILLED, "it was killed (signal 9): by hand, for memory, or when its time to end was over"
    return None, "it left no record of its own of how it ended, so it counts as lost"


def _memory(record: Record) -> str:
    most = max(record.max_rss_bytes, record.asked_bytes)
    if not most:
        return "it used more memory than it asked for: ask for more with `mem`"
    used = f" (it was seen to use {_mib(record.max_rss_bytes)})" if record.max_rss_bytes else ""
    asked = f"the {_mib(record.asked_bytes)} that it asked for" if record.asked_bytes else "it asked for"
    return f"it used more memory than {asked}{used}: ask for --mem={_mib(1.2 * most)}"


def _mib(size: float) -> str:
    return f"{math.ceil(size / (1 << 20))}M"


_HINTS = (
    ("partition", "sinfo -s  (the partitions there are; set `partition` in [sites.NAME.sbatch])"),
    ("account", "sacctmgr -n show assoc user=$USER format=account,partition,qos  (then set `account`)"),
    ("qos", "sacctmgr -n show assoc user=$USER format=account,partition,qos  (then set `qos`)"),
    ("memory", "sinfo -o '%P %m %c %G'  (memory in MB, CPUs and GPUs of the nodes; ask for less)"),
    ("node configuration", "sinfo -o '%P %m %c %G'  (memory in MB, CPUs and GPUs of the nodes; ask for less)"),
    ("gres", "sinfo -o '%P %G'  (what `gres` may name)"),
    ("feature", "sinfo -o '%P %f'  (what `constraint` may name)"),
    ("time limit", "sinfo -o '%P %l'  (the most that `time` may be)"),
    ("invalid", "look at [sites.NAME.sbatch] in the settings: its names and values are sbatch's own"),
    (
        "unrecognized option",
        "look at [sites.NAME.sbatch] in the settings: its names are sbatch's own, without the dashes",
    ),
)


def forecast(said: str) -> str:
    """What `sbatch --test-only` says of the start, in words; "" where it does not."""
    found = re.search(
        r"to start at (\S+) (?:using|a using) (\d+) processors on (?:nodes )?(.+?) in partition (\S+)", said
    )
    if not found:
        return ""
    at = found[1].replace("T", " ")
    return f"Slurm would start it at {at} (its own time) on {found[3]}, {found[2]} CPUs, in partition {found[4]}"


def hint(said: str, site: str) -> str:
    """The command that shows what would be right, for what sbatch said."""
    low = said.lower()
    found = next((text for sign, text in _HINTS if sign in low), "sojourn doctor {site}")
    return found.replace("{site}", site).replace("NAME", site)
