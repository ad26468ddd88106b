"""What Slurm keeps of a job. Source: sacct(1), scontrol(1), squeue(1) of 22.05 to 24.11 (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

# ruff: noqa: E501  one observation is one row
TABLE = """
sl.state | text | | slurm | state of the job: COMPLETED FAILED TIMEOUT OUT_OF_MEMORY PREEMPTED NODE_FAIL ...
sl.step_states | list | | slurm | states of its steps
sl.exit | text | rc:signal | slurm | ExitCode
sl.derived | text | rc:signal | slurm | DerivedExitCode, the highest of its steps
sl.reason | text | | slurm | why it waits or ended
sl.elapsed_frac | float | share | slurm | Elapsed over Timelimit
sl.maxrss_frac | float | share | slurm | MaxRSS over ReqMem; sampled, may miss the peak
sl.maxrss | int | bytes | slurm | MaxRSS, the largest of its steps; sampled, may miss the peak
sl.reqmem | int | bytes | slurm | ReqMem, what the job was granted
sl.refused | text | | slurm | what sbatch said where it took nothing
sl.restarts | int | times | slurm | Restarts
sl.out | text | | slurm | end of the batch output
sl.cpus_seen | int | cores | slurm | cores a step may use
sl.cpus_requested | int | cores | slurm | SLURM_CPUS_PER_TASK
sl.gpus_seen | int | cards | slurm | cards a step sees
sl.ckpt_on_tmp | bool | | launch | checkpoints lie below TMPDIR or /tmp
"""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _sacct(probe: Probe) -> Mapping[str, Any]:
    """`sacct -P`: one row for the job, then its steps."""
    lines = [line for line in probe.text.splitlines() if "|" in line]
    if len(lines) < 2 or "State" not in lines[0]:
        return _plain_sacct(probe)
    head = lines[0].split("|")
    return _rows([dict(zip(head, line.split("|"), strict=False)) for line in lines[1:]])


def _plain_sacct(probe: Probe) -> Mapping[str, Any]:
    """The table for people: columns are as wide as the rule below the head says."""
    lines = probe.text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.fullmatch(r"[- ]+", line) and "--" in line), 0)
    if not at or "State" not in lines[at - 1]:
        return {}
    spans = [match.span() for match in re.finditer(r"-+", lines[at])]
    cells = [[line[a:b].strip() for a, b in spans] for line in [lines[at - 1], *lines[at + 1 :]] if line.strip()]
    return _rows([dict(zip(cells[0], row, strict=False)) for row in cells[1:]])


def _rows(rows: list[dict[str, str]]) -> dict[str, Any]:
    if not rows:
        return {}
    job, steps = rows[0], rows[1:]
    found: dict[str, Any] = {"sl.step_states": [_state(row.get("State", "")) for row in steps]}
    found["sl.state"] = (
        job.get("State", "").rstrip("+")
        if job.get("State", "").startswith("CANCELLED")
        else _state(job.get("State", ""))
    )
    for key, name in (("ExitCode", "sl.exit"), ("DerivedExitCode", "sl.derived"), ("Reason", "sl.reason")):
        if job.get(key):
            found[name] = job[key]
    elapsed, limit = _seconds(job.get("Elapsed", "")), _seconds(job.get("Timelimit", ""))
    if elapsed is not None and limit:
        found["sl.elapsed_frac"] = round(elapsed / limit, 4)
    peak = max((_size(row.get("MaxRSS", "")) or 0 for row in rows), default=0)
    asked = next((size for row in rows if (size := _size(row.get("ReqMem", "")))), None)
    if peak:
        found["sl.maxrss"] = peak
    if asked:
        found["sl.reqmem"] = asked
    if peak and asked:
        found["sl.maxrss_frac"] = round(peak / asked, 4)
    return found


def _scontrol(probe: Probe) -> Mapping[str, Any]:
    rows = dict(re.findall(r"(\w[\w:/]*)=(\S*)", probe.text))
    found: dict[str, Any] = {}
    if "JobState" in rows:
        found["sl.state"] = rows["JobState"]
    for key, name in (("ExitCode", "sl.exit"), ("DerivedExitCode", "sl.derived"), ("Reason", "sl.reason")):
        if rows.get(key) and rows[key] != "None":
            found[name] = rows[key]
    if rows.get("Restarts", "").isdigit():
        found["sl.restarts"] = int(rows["Restarts"])
    ran, limit = _seconds(rows.get("RunTime", "")), _seconds(rows.get("TimeLimit", ""))
    if ran is not None and limit:
        found["sl.elapsed_frac"] = round(ran / limit, 4)
    return found


def _squeue(probe: Probe) -> Mapping[str, Any]:
    found = re.search(r"\b(PD|R|CG|CF|S)\s+\S+\s+\d+\s+(?:\((\w+)\)|\S+)\s*$", probe.text, re.M)
    if not found:
        return {}
    states = {"PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING", "CF": "CONFIGURING", "S": "SUSPENDED"}
    told: dict[str, Any] = {"sl.state": states[found.group(1)]}
    if found.group(2):
        told["sl.reason"] = found.group(2)
    return told


def _out(probe: Probe) -> Mapping[str, Any]:
    return {"sl.out": probe.text[-65536:]}


def _sbatch(probe: Probe) -> Mapping[str, Any]:
    said = (probe.stderr or probe.text).strip()[-4096:]
    return {"sl.refused": said} if probe.rc and said else {}


def _state(text: str) -> str:
    """The first word; sacct cuts long ones with a plus."""
    word = text.split(" ")[0].rstrip("+")
    full = ("OUT_OF_MEMORY", "NODE_FAIL", "COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE", "BOOT_FAIL")
    return next((name for name in full if text.split(" ")[0].endswith("+") and name.startswith(word)), word)


def _seconds(text: str) -> float | None:
    """[D-]HH:MM:SS, MM:SS. None for UNLIMITED and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _size(text: str) -> int | None:
    found = re.fullmatch(r"([\d.]+)([KMGT]?)[nc]?", text.strip())
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None


READS = (
    Reader(r"\bsacct\b", _sacct, r"^JobID[|\w%]*\|.*State"),
    Reader(r"\bscontrol\b", _scontrol, r"^JobId=\d+"),
    Reader(r"\bsqueue\b", _squeue, r"^\s*JOBID\s+PARTITION"),
    Reader(r"^sbatch$", _sbatch, hears_silence=True),
    Reader(r"slurm-\S+\.out|sl\.out|slurm.?out", _out),
)
