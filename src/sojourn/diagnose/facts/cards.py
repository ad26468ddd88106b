"""What nvidia-smi says: its table of queries, its pages, its exit status. Source: nvidia-smi(1) (2026-11)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader, number

_MIB = 1 << 20
BUSY_PCT = 50  # below it neither clocks nor power say anything
_PREFIXES = ("clocks_event_reasons.", "clocks_throttle_reasons.")
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
    has_head = bool(lines) and "noheader" not in probe.name
    has_head = has_head and (names is None or ("[" in lines[0] and not re.search(r"\d", lines[0].split(",")[-1])))
    head = [
        re.sub(r" \[.*?\]", "", cell).strip()
        for cell in (lines[0].split(",") if has_head else names.group(1).split(",") if names else [])
    ]
    rows = [
        dict(zip(head, (cell.strip() for cell in row), strict=False))
        for row in csv.reader(lines[1 if has_head else 0 :])
    ]
    rows = [row for row in rows if "No devices were found" not in row.values()]
    if not head or (not rows and "No devices were found" not in probe.text):
        return {}
    cards = per_card(rows)
    found: dict[str, Any] = {"gpu.count": len(cards)}
    if not rows:
        return found
    for key, name, scale, pick in (
        ("memory.total", "gpu.mem_total", _MIB, min),
        ("memory.used", "gpu.mem_used", _MIB, max),
        ("utilization.gpu", "gpu.util", 1, min),
        ("utilization.memory", "gpu.mem_util", 1, min),
        ("temperature.gpu", "gpu.temp", 1, max),
        ("ecc.errors.uncorrected.volatile.total", "gpu.ecc_uncorr", 1, max),
    ):
        values = [n for looks in cards if (n := mean(looks, key)) is not None]
        if values:
            value = pick(values) * scale
            found[name] = int(value) if scale > 1 or name.endswith("uncorr") else value
    for key, name in (("name", "gpu.name"), ("compute_cap", "gpu.cc"), ("driver_version", "gpu.driver")):
        if rows[0].get(key):
            found[name] = rows[0][key]
    if any(row.get("remapped_rows.failure") in ("Yes", "No") for row in rows):
        found["gpu.remap_failed"] = any(row.get("remapped_rows.failure") == "Yes" for row in rows)
    for top, limit, name in (
        ("clocks.sm", "clocks.max.sm", "gpu.sm_clock_frac"),
        ("power.draw", "power.limit", "gpu.power_frac"),
    ):
        shares = [
            sum(some) / len(some)
            for looks in cards
            if (
                some := [
                    a / b
                    for row in loaded(looks)
                    if (a := number(row.get(top, ""))) is not None and (b := number(row.get(limit, "")))
                ]
            )
        ]
        if shares:
            found[name] = round(min(shares), 3)
    if any(key.startswith(("clocks_event_reasons", "clocks_throttle_reasons")) for key in head):
        found["gpu.throttle"] = sorted({reason for looks in cards for reason in throttled(looks)})
    return found


_CARD = re.compile(
    r"(?P<temp>\d+)C\s+P\d+\s+(?P<draw>\d+)W\s*/\s*(?P<limit>\d+)W\s*\|\s*(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB\s*\|"
    r"\s*(?P<util>\d+)%"
)


def of_page(text: str) -> dict[str, Any]:
    """The page for people that `nvidia-smi` alone prints: a card in two or three lines between rules."""
    found: dict[str, Any] = {"gpu.smi_text": text[-4000:]}
    named = (("gpu.driver_cuda", r"CUDA Version: (\d+\.\d+)"), ("gpu.driver", r"Driver Version: (\d+[\d.]*)"))
    for name, regex in named:
        if version := re.search(regex, text):
            found[name] = version.group(1)
    rows = [{key: float(value) for key, value in hit.groupdict().items()} for hit in _CARD.finditer(text)]
    if rows:
        found["gpu.count"] = len(rows)
        found["gpu.mem_total"] = int(min(row["total"] for row in rows) * _MIB)
        found["gpu.mem_used"] = int(max(row["used"] for row in rows) * _MIB)
        found["gpu.temp"] = max(row["temp"] for row in rows)
        found["gpu.util"] = min(row["util"] for row in rows)
        shares = [row["draw"] / row["limit"] for row in rows if row["util"] >= BUSY_PCT and row["limit"]]
        if shares:
            found["gpu.power_frac"] = round(min(shares), 3)
    return found


def per_card(rows: Sequence[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    """The looks at each card; a query that loops repeats its rows. Without an index each row is another card."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for at, row in enumerate(rows):
        found.setdefault(row.get("index") or row.get("uuid") or str(at), []).append(row)
    return list(found.values())


def mean(looks: Sequence[Mapping[str, str]], key: str) -> float | None:
    """The mean of a number over the looks at one card; None where it is never told."""
    values = [n for row in looks if (n := number(row.get(key, ""))) is not None]
    return sum(values) / len(values) if values else None


def loaded(looks: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The looks at which the card worked: only these say something about clocks and power."""
    return [row for row in looks if (number(row.get("utilization.gpu", "")) or 0) >= BUSY_PCT]


def throttled(looks: Sequence[Mapping[str, str]]) -> list[str]:
    """Why the card's clocks are held back: at one look, or at more than half of those under load."""
    of = loaded(looks) or looks[-1:]
    counts = {
        reason: sum(any(row.get(prefix + reason, "").lower() == "active" for prefix in _PREFIXES) for row in of)
        for reason in _REASONS
    }
    return [reason for reason, count in counts.items() if 2 * count > len(of)]


def rows_of(name: str, text: str) -> list[dict[str, str]]:
    """The rows of a query without a head, by the fields that the probe's name asks for."""
    found = re.search(r"--query-[a-z-]+[= ](\S+)", name)
    head = found.group(1).split(",") if found else []
    cells = (next(csv.reader([line]), []) for line in text.splitlines() if line.strip())
    return [dict(zip(head, (cell.strip() for cell in row), strict=False)) for row in cells if len(row) > 1]


def _apps(probe: Probe) -> Mapping[str, Any]:
    """Memory that no process listed here accounts for. Of a box alone: while a run lives, it is the run's."""
    if not probe.kept("alone"):
        return {}
    query = next((name for name in probe.others if "--query-gpu" in name), "")
    told: dict[str, float] = {}
    for row in rows_of(probe.name, probe.text):
        told[row["gpu_uuid"]] = told.get(row["gpu_uuid"], 0) + (number(row.get("used_memory", "")) or 0)
    over = [
        (mean(looks, "memory.used") or 0) - told.get(looks[0].get("uuid", ""), 0)
        for looks in per_card(rows_of(query, probe.others.get(query, "")))
    ]
    return {"gpu.mem_unexplained": int(max(over) * _MIB)} if over else {}


def _matmul(probe: Probe) -> Mapping[str, Any]:
    """What a product on every card came to: our own program's lines, one JSON object each."""
    lines = [one for line in probe.text.splitlines() if isinstance(one := _json(line), dict)]
    found: dict[str, Any] = {}
    for one in lines:
        if "torch" in one:
            found.update({"gpu.torch_avail": one.get("avail"), "gpu.torch_cuda": one.get("cuda")})
    tried = [one for one in lines if "card" in one or "failed" in one]
    if tried:
        wrong = [str(one.get("said") or one.get("failed")) for one in tried if not one.get("ok")]
        found["gpu.torch_probe"] = wrong[0] if wrong else "ok"
    return found


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


READS = (
    Reader(r"nvidia-smi|^smi\b|gpu\.smi", _smi, r"NVIDIA-SMI|^GPU \d+: ", hears_silence=True),
    Reader(r"--query-compute-apps", _apps),
    Reader(r"^matmul$", _matmul),
)
