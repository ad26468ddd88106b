"""What nvidia-smi says: its table of queries, its pages, its exit status. Source: nvidia-smi(1) (2026-11)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader, number

_MIB = 1 << 20
_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown", "sw_power_cap")


def _smi(probe: Probe) -> Mapping[str, Any]:
    """Any call: status and words; then what its form tells."""
    said = (probe.text + probe.stderr).strip()
    if probe.rc == 127 or "--query-compute-apps" in probe.name:
        return {}
    found: dict[str, Any] = {}
    has_query = any("--query-gpu" in name for name in probe.others if name != probe.name)
    if not has_query or probe.rc:  # of several calls that for the cards says how the driver is
        found["gpu.smi_text"] = said[-4000:]
        if probe.rc is not None:
            found["gpu.smi_rc"] = probe.rc
    if "--query-gpu" in probe.name or re.match(
        r"(?i)\s*(?:index|name|uuid|timestamp|gpu_name|pci\.bus_id|driver_version)[,\w. \[\]]*\n", probe.text
    ):
        found.update(_query(probe))
    elif re.search(r"(?m)^GPU \d+: ", probe.text):
        found["gpu.count"] = len(re.findall(r"(?m)^GPU \d+: ", probe.text))
    elif re.search(r"No devices were found", said):
        found["gpu.count"] = 0
    if version := re.search(r"CUDA Version\s*:\s*(\d+\.\d+)", said):
        found["gpu.driver_cuda"] = version.group(1)
    if version := re.search(r"Driver Version\s*:\s*(\d+[\d.]*)", said):
        found["gpu.driver"] = version.group(1)
    if action := re.findall(r"GPU Recovery Action\s*:\s*(.+)", said):
        found["gpu.recovery_action"] = next((a.strip() for a in action if a.strip() != "None"), action[0].strip())
    if "Fabric" in said and (state := re.search(r"Fabric\s*\n\s*State\s*:\s*(.+)", said)):
        found["mn.fabric"] = (
            "active" if state.group(1).strip() == "Completed" else "inactive" if "N/A" not in state.group(1) else "n/a"
        )
    return found


def _query(probe: Probe) -> dict[str, Any]:
    """`--query-gpu=...`: one card a row. Of several cards the one that is worst off stands for the box."""
    lines = [line for line in probe.text.splitlines() if line.strip()]
    names = re.search(r"--query-gpu[= ](\S+)", probe.name)
    has_head = (
        bool(lines)
        and not re.search(r"\d", lines[0].split(",")[-1])
        and "[" in lines[0]
        or (bool(lines) and "noheader" not in probe.name and names is None)
    )
    head = [
        re.sub(r" \[.*?\]", "", cell).strip()
        for cell in (lines[0].split(",") if has_head else names.group(1).split(",") if names else [])
    ]
    rows = [
        dict(zip(head, (cell.strip() for cell in row), strict=False))
        for row in csv.reader(lines[1 if has_head else 0 :])
    ]
    if not rows or not head:
        return {}
    found: dict[str, Any] = {"gpu.count": len(rows)}
    for key, name, scale, pick in (
        ("memory.total", "gpu.mem_total", _MIB, min),
        ("memory.used", "gpu.mem_used", _MIB, max),
        ("utilization.gpu", "gpu.util", 1, min),
        ("utilization.memory", "gpu.mem_util", 1, min),
        ("temperature.gpu", "gpu.temp", 1, max),
        ("ecc.errors.uncorrected.volatile.total", "gpu.ecc_uncorr", 1, max),
    ):
        values = [n for row in rows if (n := number(row.get(key, ""))) is not None]
        if values:
            value = pick(values) * scale
            found[name] = int(value) if scale > 1 or name.endswith("uncorr") else value
    for key, name in (("name", "gpu.name"), ("compute_cap", "gpu.cc"), ("driver_version", "gpu.driver")):
        if rows[0].get(key):
            found[name] = rows[0][key]
    busy = [row for row in rows if (number(row.get("utilization.gpu", "")) or 0) >= 50]
    for top, limit, name in (
        ("clocks.sm", "clocks.max.sm", "gpu.sm_clock_frac"),
        ("power.draw", "power.limit", "gpu.power_frac"),
    ):
        shares = [
            a / b for row in busy if (a := number(row.get(top, ""))) is not None and (b := number(row.get(limit, "")))
        ]
        if shares:
            found[name] = round(min(shares), 3)
    active = {
        reason
        for row in rows
        for reason in _REASONS
        for prefix in ("clocks_event_reasons.", "clocks_throttle_reasons.")
        if row.get(prefix + reason, "").lower() == "active"
    }
    if any(key.startswith(("clocks_event_reasons", "clocks_throttle_reasons")) for key in head):
        found["gpu.throttle"] = sorted(active)
    return found


READS = (Reader(r"nvidia-smi|^smi\b|gpu\.smi", _smi, r"NVIDIA-SMI|^GPU \d+: ", hears_silence=True),)
