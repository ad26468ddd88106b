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
# Whole lines, each tried once: without the ^ a line is tried anew from every place in it.
_CRASH = re.compile(r"^.*\b(?:segfault at|general protection|traps: |trap invalid opcode|trap divide error)\b.*", re.M)
_DISK = re.compile(
    r"^.*(?:I/O error, dev|blk_update_request: I/O error|Buffer I/O error|Aborting journal|controller is down"
    r"|remounting filesystem read-only|EXT4-fs error|XFS \S+: .*(?:shut|error)).*",
    re.I | re.M,
)


def _dmesg(probe: Probe) -> Mapping[str, Any]:
    said = probe.stderr + probe.text[:300]
    if not probe.text.strip() or re.search(r"(?:Operation not permitted|Permission denied)", said):
        denied = probe.rc not in (0, None) or "not permitted" in said or "denied" in said
        return {"kmsg.readable": False} if denied else {"kmsg.readable": True, **_read("")}
    text = since_launch(probe)
    ours, others = apart(text, group_of(probe))
    return {"kmsg.readable": True, **_read(ours), "kmsg.oom_others": _oom(others)}


def since_launch(probe: Probe) -> str:
    """The lines written since the attempt began. The log's own clock, where it was kept, is better than the uptime.

    Of a box without a run those of cards and disks alone: which process ended there how says nothing about the box.
    """
    text = _since(probe)
    if probe.kept("alone"):
        return "\n".join(line for line in text.splitlines() if "NVRM" in line or _DISK.search(line))
    return text


def _since(probe: Probe) -> str:
    after, uptime = probe.kept("kmsg_s"), probe.kept("uptime_s", "box.uptime_s")
    if isinstance(after, (int, float)):
        return "\n".join(line for line in probe.text.splitlines() if (at := _at(line)) is None or at > after)
    if isinstance(uptime, (int, float)):
        return "\n".join(line for line in probe.text.splitlines() if (at := _at(line)) is None or at >= uptime)
    return probe.text


def group_of(probe: Probe) -> str:
    """Our memory control group as the kernel's log names it ("a/b"); "" where it is not known or all that we see."""
    named, groups = probe.kept("cgroup"), probe.kept("groups")
    if isinstance(named, str):
        return named.strip("/")
    folder = str(groups.get("memory") or "") if isinstance(groups, Mapping) else ""
    return re.sub(r"^/sys/fs/cgroup(?:/(?:unified|memory)(?=/|$))?", "", folder).strip("/")


def apart(text: str, group: str) -> tuple[str, str]:
    """(text without memory kills of other control groups, those). Without a `group` nothing is known to be another's.

    A kill is told in two or three lines; the one with the group comes before or carries the pid of the others.
    """
    if not group:
        return text, ""
    strangers: set[str] = set()
    is_stranger = False
    for line in text.splitlines():
        path = re.search(r"task_memcg=([^,\s]+)|Task in (\S+) killed as a result", line)
        pid = re.search(r"\bpid=(\d+)|Kill(?:ed)? process (\d+)", line)
        if path:
            is_stranger = f"/{group}/" not in (path.group(1) or path.group(2)) + "/"
        if path or pid:
            if is_stranger and pid:
                strangers.add(pid.group(1) or pid.group(2))
            if pid and not path:
                is_stranger = False
    ours: list[str] = []
    others: list[str] = []
    for line in text.splitlines():
        path = re.search(r"Task in (\S+) killed as a result", line)
        pid = re.search(r"\bpid=(\d+)|Kill(?:ed)? process (\d+)", line)
        is_theirs = bool(path and f"/{group}/" not in path.group(1) + "/")
        is_theirs = is_theirs or bool(_OOM.search(line) and pid and (pid.group(1) or pid.group(2)) in strangers)
        (others if is_theirs else ours).append(line)
    return "\n".join(ours), "\n".join(others)


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kmsg.xid": sorted({int(code) for code in _XID.findall(text)}),
        "kmsg.oom_lines": _oom(text),
        "kmsg.segfaults": [hit.group(0)[:200] for hit in _CRASH.finditer(text)][-20:],
        "kmsg.fs_errors": [hit.group(0)[:200] for hit in _DISK.finditer(text)][-20:],
    }
    action = _ACTION.findall(text)
    if action:
        found["kmsg.xid154_action"] = action[-1].strip()
    return found


def _oom(text: str) -> list[str]:
    return [hit.group(0)[:400] for hit in _OOM.finditer(text)][-20:]


def _at(line: str) -> float | None:
    """Seconds since boot of a dmesg line, None where it has no such stamp."""
    found = re.match(r"(?:<\d+>)?\[\s*(\d+\.\d+)\]", line)
    return float(found.group(1)) if found else None


def _vmstat(probe: Probe) -> Mapping[str, Any]:
    """Counted for the whole machine; only where our group has no counter of its own."""
    found, before = re.search(r"^oom_kill (\d+)", probe.text, re.M), probe.kept("oom_kill")
    if not found or not isinstance(before, int) or probe.kept("oom_kill_file") != "/proc/vmstat":
        return {}
    return {"box.oom_kill_delta": int(found.group(1)) - before}


READS = (
    Reader(r"dmesg|kmsg|kernel.?log|journalctl", _dmesg, r"(?m)^\[\s*\d+\.\d{6}\] ", hears_silence=True),
    Reader(r"^/proc/vmstat$", _vmstat),
)
