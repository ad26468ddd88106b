"""Control groups, version 1 and 2. Source: cgroup-v2.rst, cgroup-v1/memory.rst, accounting/psi.rst (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

_UNLIMITED = 1 << 60
_LIMIT = r"memory\.(?:max|limit_in_bytes)$"
_NOW = r"memory\.(?:current|usage_in_bytes)$"
_PEAK = r"memory\.(?:peak|max_usage_in_bytes)$"


def _events(probe: Probe) -> Mapping[str, Any]:
    found = re.search(r"^oom_kill (\d+)", probe.text, re.M)
    if not found:
        return {}
    before = probe.kept("oom_kill", "cg.oom_kill")
    if probe.kept("oom_kill_file") not in (None, probe.name):
        return {}  # counted in another group then
    return {"cg.oom_kill_delta": int(found.group(1)) - before} if isinstance(before, int) else {}


def _memory(probe: Probe) -> Mapping[str, Any]:
    """Any of the memory files: the shares need its neighbours, which are looked for among the other probes."""
    found: dict[str, Any] = {}
    limit = _other(probe, _LIMIT)
    if limit is not None:
        found["cg.mem_max"] = limit if 0 < limit < _UNLIMITED else None
        now, peak = _other(probe, _NOW), _other(probe, _PEAK)
        if peak is not None:
            found["cg.mem_peak"] = peak
        if 0 < limit < _UNLIMITED:
            if now is not None:
                found["cg.mem_frac"] = round(max(0, now - _cache(probe)) / limit, 4)
            if peak is not None:
                found["cg.mem_peak_frac"] = round(peak / limit, 4)
    if probe.name.endswith(("memory.max", "memory.current", "memory.peak")):
        found["cg.version"] = "v2"
    elif "in_bytes" in probe.name:
        found["cg.version"] = "v1"
    return found


def _cpu_max(probe: Probe) -> Mapping[str, Any]:
    words = probe.text.split()
    if len(words) != 2 or not words[1].isdigit():
        return {}
    return {"cg.cpu_quota": None if words[0] == "max" else int(words[0]) / int(words[1])}


def _cfs(probe: Probe) -> Mapping[str, Any]:
    quota, period = _other(probe, r"cpu\.cfs_quota_us$"), _other(probe, r"cpu\.cfs_period_us$")
    if quota is None or not period:
        return {}
    return {"cg.cpu_quota": quota / period if quota > 0 else None}


def _cpu_stat(probe: Probe) -> Mapping[str, Any]:
    rows = dict(re.findall(r"^(nr_\w+) (\d+)", probe.text, re.M))
    before = dict(re.findall(r"^(nr_\w+) (\d+)", str(probe.kept("cpu.stat") or ""), re.M))
    periods = int(rows.get("nr_periods", 0)) - int(before.get("nr_periods", 0))
    throttled = int(rows.get("nr_throttled", 0)) - int(before.get("nr_throttled", 0))
    return {"cg.throttled_frac": round(throttled / periods, 4)} if periods > 0 else {}


def _pressure(probe: Probe) -> Mapping[str, Any]:
    kind = next((kind for kind in ("cpu", "memory", "io") if kind in probe.name), "")
    line = "some" if kind == "cpu" else "full"
    found = re.search(rf"^{line} .*avg60=([\d.]+)", probe.text, re.M)
    name = {"cpu": "cg.psi_cpu", "memory": "cg.psi_mem", "io": "cg.psi_io"}.get(kind)
    return {name: float(found.group(1))} if found and name else {}


def _pids(probe: Probe) -> Mapping[str, Any]:
    now, limit = _other(probe, r"pids\.current$"), _other(probe, r"pids\.max$")
    return {"cg.pids_frac": round(now / limit, 4)} if now is not None and limit else {}


def _other(probe: Probe, named: str) -> int | None:
    for name, text in {**probe.others, probe.name: probe.text}.items():
        if re.search(named, name):
            word = text.strip()
            return int(word) if re.fullmatch(r"-?\d+", word) else _UNLIMITED if word == "max" else None
    return None


def _cache(probe: Probe) -> int:
    """Page cache that the kernel would give up first."""
    for name, text in probe.others.items():
        if name.endswith("memory.stat"):
            found = re.search(r"^(?:total_)?inactive_file (\d+)", text, re.M)
            return int(found.group(1)) if found else 0
    return 0


def _freezer(probe: Probe) -> Mapping[str, Any]:
    """freezer.state of version 1, cgroup.events of version 2: both count what a group above froze."""
    found = re.search(r"^frozen ([01])$", probe.text, re.M)
    if found:
        return {"cg.frozen": found.group(1) == "1"}
    word = probe.text.strip()
    return {"cg.frozen": word != "THAWED"} if word in ("THAWED", "FROZEN", "FREEZING") else {}


READS = (
    Reader(r"freezer\.state$|cgroup\.events$", _freezer),
    Reader(r"memory\.events$|memory\.oom_control$", _events, r"^(?:low \d+\nhigh|oom_kill_disable )"),
    Reader(rf"{_LIMIT}|{_NOW}|{_PEAK}", _memory),
    Reader(r"cpu\.max$", _cpu_max),
    Reader(r"cpu\.cfs_quota_us$", _cfs),
    Reader(r"cpu\.stat$", _cpu_stat),
    Reader(r"(?:cpu|memory|io)\.pressure$", _pressure),
    Reader(r"pids\.(?:current|max)$", _pids),
)
