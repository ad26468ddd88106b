"""A user's share of a cluster: the hours its jobs took, and the state of the fair share. Nothing else is charged.

Source: sacct(1), sshare(1) of Slurm 22.05 (2026-11), and their behaviour in tests/lab/slurm.
"""

from __future__ import annotations

import re

# $1 ids with commas. -D: every start of a requeued job.
ASK = r"""
jobs=$(echo "$1" | tr , '\n' | sed 's/_.*//' | sort -u | paste -s -d , -)
sacct -n -P -X -D -j "$jobs" -o JobID,CPUTimeRAW,ElapsedRaw,AllocTRES 2>/dev/null && echo sojourn:sacct
sshare -n -P -U -o Account,User,RawUsage,EffectvUsage,FairShare 2>/dev/null
exit 0
"""


_NUMBER = re.compile(r"[0-9]{1,15}")


def line(text: str) -> str:
    """The output of ASK, in one line."""
    told, kept, shares = text.partition("sojourn:sacct\n")
    if not kept:
        return "this cluster keeps no accounting, so fair-share usage is unknown (ask its administrators)"
    cpu_s = gpu_s = 0
    for row in told.splitlines():
        cells = row.split("|")
        if len(cells) == 4 and _NUMBER.fullmatch(cells[1]) and _NUMBER.fullmatch(cells[2]):
            gpus = re.search(r"gres/gpu=([0-9]{1,9})", cells[3])
            cpu_s += int(cells[1])
            gpu_s += int(cells[2]) * int(gpus[1]) if gpus else 0
    used = f"its jobs used {cpu_s / 3600:.2f} CPU hours"
    if gpu_s:
        used += f" and {gpu_s / 3600:.2f} GPU hours"
    for row in shares.splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 5 and cells[1] and cells[4]:
            used += f"; fair share of {cells[1]} in account {cells[0]}: {cells[4]} (1 is unused, 0 is used up)"
    return used
