"""Room, inodes, mounts, the write probe. Source: df(1) -P, proc(5) mountinfo (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

_UNREAL = re.compile(r"^(?:udev|devtmpfs|none|proc|sysfs|efivarfs)$")
_ERRNO = {"28": "ENOSPC", "122": "EDQUOT", "30": "EROFS", "5": "EIO", "116": "ESTALE", "13": "EACCES"}
_SAID = (
    ("No space left", "ENOSPC"),
    ("quota exceeded", "EDQUOT"),
    ("Read-only file system", "EROFS"),
    ("Input/output error", "EIO"),
    ("Stale", "ESTALE"),
    ("Permission denied", "EACCES"),
    ("timed out", "timeout"),
)


def _df(probe: Probe) -> Mapping[str, Any]:
    """`df -Pk` and `df -Pi`; the head tells which. The row is that of the run's root, else the fullest."""
    rows = [line.split(None, 5) for line in probe.text.splitlines()]
    if rows and "Type" in rows[0]:  # df -T
        rows = [[row[0], *row[2:5], *" ".join(row[5:]).split(None, 1)] for row in rows if len(row) > 5]
    if not rows or len(rows[0]) < 5 or not rows[0][0].startswith("Filesystem"):
        return {}
    is_inodes = rows[0][1].lower().startswith(("inodes", "iused"))
    scale = 1024 if "1024" in rows[0][1] or "1K" in rows[0][1] else 1
    table = [
        (row[5], total, used, free)
        for row in rows[1:]
        if len(row) == 6
        and (total := _amount(row[1])) is not None
        and (used := _amount(row[2])) is not None
        and (free := _amount(row[3])) is not None
        and not _UNREAL.match(row[0])
    ]
    found: dict[str, Any] = {}
    for point, total, _, free in table:
        if point == "/dev/shm" and not is_inodes and total:
            found.update({"shm.total": total * scale, "shm.pct": round(1 - free / total, 4)})
    table = [row for row in table if not row[0].startswith(("/dev", "/run", "/sys", "/proc", "/boot", "/snap"))]
    if not table:
        return found
    root = str(probe.kept("root", "run.root", "base") or "")
    below = [row for row in table if row[0] == root or root.startswith(row[0].rstrip("/") + "/")]
    at = max(below, key=lambda row: len(row[0])) if root and below else max(table, key=lambda row: _used(row))
    if is_inodes:
        found["disk.inodes_pct"] = _used(at) if at[1] else None
    else:
        found.update({"disk.bytes_pct": _used(at), "disk.avail": at[3] * scale})
    return found


def _amount(text: str) -> int | None:
    """A number of blocks or inodes, or a size as `df -h` and `df -H` write it: 1.8T, 50G, 0."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kKMGTP]?)i?B?", text)
    return int(float(found.group(1)) * 1024 ** " KMGTP".index(found.group(2).upper() or " ")) if found else None


def _used(row: tuple[str, int, int, int]) -> float:
    """Used share for a user: what the reserved blocks take counts as used."""
    _, total, used, free = row
    if not total:
        return 0.0
    room = used + max(free, 0)
    return round(used / room, 4) if room else 1.0


@dataclass(frozen=True)
class Mount:
    """One row of a table of mounts."""

    point: str
    fstype: str
    options: str


def mount_of(text: str, path: str) -> Mount | None:
    """The mount that holds `path`: the one with the longest point, of these the last; None where none is told."""
    above = [one for one in _rows(text) if path == one.point or path.startswith(one.point.rstrip("/") + "/")]
    longest = max((len(one.point) for one in above), default=0)
    return next((one for one in reversed(above) if len(one.point) == longest), None)


def _rows(text: str) -> list[Mount]:
    """The rows of mountinfo, or of /proc/mounts."""
    rows = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        a, b = left.split(), right.split()
        if dash and len(a) >= 6 and len(b) >= 3:
            rows.append(Mount(a[4], b[0], a[5] + "," + b[2]))
        elif not dash and len(a) >= 4:
            rows.append(Mount(a[1], a[2], a[3]))
    return rows


def _mounts(probe: Probe) -> Mapping[str, Any]:
    rows, best = _rows(probe.text), mount_of(probe.text, str(probe.kept("root", "run.root", "base") or ""))
    found: dict[str, Any] = {"prov.mounts": [one.point for one in rows]} if rows else {}
    if best:
        is_ro = bool({"ro", "emergency_ro"} & set(best.options.split(",")))
        found.update({"disk.fstype": best.fstype, "disk.ro": is_ro})
    return found


def _write(probe: Probe) -> Mapping[str, Any]:
    said = probe.text + probe.stderr
    if probe.rc == 124:
        return {"disk.probe_write": "timeout"}
    code = re.search(r"\b(E[A-Z]{3,6})\b", said)
    if code:
        return {"disk.probe_write": code.group(1)}
    number = re.search(r"[Ee]rrno:? ?(\d+)", said)
    if number and number.group(1) in _ERRNO:
        return {"disk.probe_write": _ERRNO[number.group(1)]}
    for words, name in _SAID:
        if words in said:
            return {"disk.probe_write": name}
    return {"disk.probe_write": "ok"} if probe.rc == 0 or said.strip() == "ok" else {}


READS = (
    Reader(r"\bdf\b", _df, r"^Filesystem\s+(?:1024-blocks|1K-blocks|Inodes|Size)"),
    Reader(r"mountinfo$|/mounts$|^mounts?$", _mounts),
    Reader(r"write.?probe|probe.?write|disk\.write", _write, hears_silence=True),
)
