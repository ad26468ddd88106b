"""The kernel log: memory kills, Xid, crashes, failing disks.

Source: mm/oom_kill.c, mm/memcontrol.c, NVRM lines as the Xid catalogue has them (2026-11). Bus ids of Xid lines are
hexadecimal; older drivers write the device in decimal too, and some add the pid and the process's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?[0-9a-fA-F:.]+\): (\d+)")
_ACTION = re.compile(
    r"recovery action changed from .+? (?:\(\w+\) )?to (?:0x\w+ )?\(?([A-Z][A-Za-z0-9 ]+?)\)?\s*$", re.M | re.I
)
_OOM = re.compile(
    r"oom-kill:constraint=CONSTRAINT_\w+.*|Memory cgroup out of memory: Kill.*|Out of memory: Kill.*"
    r"|Task in \S+ killed as a result of limit of.*"
)
_CRASH = re.compile(r".*\b(?:segfault at|general protection|traps: |trap invalid opcode|trap divide error)\b.*")
_DISK = re.compile(
    r".*(?:I/O error, dev|blk_update_request: I/O error|Buffer I/O error|Aborting journal|controller is down"
    r"|remounting filesystem read-only|EXT4-fs error|XFS \S+: .*(?:shut|error)).*",
    re.I,
)


def _dmesg(probe: Probe) -> Mapping[str, Any]:
    said = probe.stderr + probe.text[:300]
    if not probe.text.strip() or re.search(r"(?:Operation not permitted|Permission denied)", said):
        denied = probe.rc not in (0, None) or "not permitted" in said or "denied" in said
        return {"kmsg.readable": False} if denied else {"kmsg.readable": True, **_read("", None)}
    since = probe.kept("uptime_s", "box.uptime_s")
    return {"kmsg.readable": True, **_read(probe.text, float(since) if isinstance(since, (int, float)) else None)}


def _read(text: str, since_s: float | None) -> dict[str, Any]:
    lines = [line for line in text.splitlines() if since_s is None or _at(line) is None or (_at(line) or 0) >= since_s]
    text = "\n".join(lines)
    found: dict[str, Any] = {
        "kmsg.xid": sorted({int(code) for code in _XID.findall(text)}),
        "kmsg.oom_lines": [hit.group(0)[:400] for hit in _OOM.finditer(text)][-20:],
        "kmsg.segfaults": [hit.group(0)[:200] for hit in _CRASH.finditer(text)][-20:],
        "kmsg.fs_errors": [hit.group(0)[:200] for hit in _DISK.finditer(text)][-20:],
    }
    action = _ACTION.findall(text)
    if action:
        found["kmsg.xid154_action"] = action[-1].strip()
    return found


def _at(line: str) -> float | None:
    """Seconds since boot of a dmesg line, None where it has no such stamp."""
    found = re.match(r"(?:<\d+>)?\[\s*(\d+\.\d+)\]", line)
    return float(found.group(1)) if found else None


READS = (Reader(r"dmesg|kmsg|kernel.?log|journalctl", _dmesg, r"(?m)^\[\s*\d+\.\d{6}\] "),)
