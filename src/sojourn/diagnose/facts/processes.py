"""The processes of an attempt, as our own probes list them, and what their shells read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader


def _tree(probe: Probe) -> Mapping[str, Any]:
    """A table of what is below the first process of the attempt, looked at twice within `window_s`."""
    rows = rows_of(probe.text)
    if rows is None:
        return {}
    living = [row for row in rows if row["state"] not in ("Z", "X")]
    pid = probe.kept("pid", "payload_pid")
    first = next((row for row in living if row["pid"] == str(pid)), None)
    # What the payload left behind is not the run.
    found: dict[str, Any] = {"run.alive": bool(living) and (first is not None or not isinstance(pid, int))}
    if not living:
        return found
    found["run.threads"] = sum(_whole(row["threads"]) or 0 for row in living)
    found["run.workers"] = sum(1 for row in living if row["comm"].startswith("pt_data_worker"))
    memory = [_whole(row["pss_kib"]) if row["pss_kib"] != "-" else _whole(row["rss_kib"]) for row in living]
    found["run.rss_tree"] = sum(kib for kib in memory if kib is not None) * 1024
    if first is not None:
        found["run.state"] = first["state"]
    states = {row["state"] for row in living}
    for state in ("D", "T"):  # the first process mostly only waits for the one that stands still
        if state in states and "R" not in states:
            found["run.state"] = state
    shares = [
        (fds / limit, fds, limit)
        for row in living
        if (fds := _whole(row["fds"])) is not None and (limit := _whole(row.get("fds_max", "")))
    ]
    if shares:  # of the process that is nearest to its own limit
        _, found["run.open_files"], found["run.open_files_limit"] = max(shares)
    window_s = probe.more.get("window_s")
    moved = [float(row["cpu_delta_s"]) for row in living if re.fullmatch(r"[\d.]+", row["cpu_delta_s"])]
    if isinstance(window_s, (int, float)) and window_s > 0 and moved:
        found["run.cores_busy"] = round(sum(moved) / window_s, 3)
    return found


def rows_of(text: str) -> list[dict[str, str]] | None:
    """The table's rows by the names in its head; None where there is no head."""
    lines = text.splitlines()
    head = lines[0].split() if lines else []
    if "pid" not in head or "state" not in head or "cpu_s" not in head:
        return None
    cells = (line.split(None, len(head) - 1) for line in lines[1:])
    return [dict(zip(head, row, strict=True)) for row in cells if len(row) == len(head)]


def cpu_s(text: str) -> dict[tuple[str, str], float]:
    """CPU seconds of every process in the table, by pid and start."""
    found = {}
    for row in rows_of(text) or ():
        if re.fullmatch(r"[\d.]+", row.get("cpu_s", "")):
            found[row["pid"], row.get("start", "")] = float(row["cpu_s"])
    return found


def _open_files(probe: Probe) -> Mapping[str, Any]:
    count = _whole(probe.text.strip())
    return {} if count is None else {"run.open_files": count}


def _stdin(probe: Probe) -> Mapping[str, Any]:
    target = probe.text.strip()
    return {"run.stdin_inherited": target != "/dev/null"} if target else {}


def _holders(probe: Probe) -> Mapping[str, Any]:
    """Processes that have a card's device open, `pid start uid state cpu_s comm devices`, and since then whose they are
    (`kind`). Who may not look everywhere does not know that nobody holds one."""
    rows = rows_of(probe.text)
    if rows is None:
        return {}
    holders = [row for row in rows if row["pid"].isdigit() and row.get("devices") != "-"]
    found: dict[str, Any] = {}
    if holders or not probe.more.get("hidden"):
        found["gpu.dev_holders"] = [int(row["pid"]) for row in holders]
    if any("kind" in row for row in rows) or probe.more.get("nodes") is not None:
        found["gpu.holders_orphaned"] = [int(row["pid"]) for row in holders if row.get("kind") == "orphan"]
    if all("run" in row for row in rows) and not probe.more.get("hidden"):
        pairs = [(device, row) for row in holders for device in row["devices"].split(",") if row["run"] != "-"]
        runs: dict[str, set[str]] = {device: set() for device, _ in pairs}
        for device, row in pairs:
            if row.get("kind") == "run":
                runs[device].add(row["run"])
        if runs:
            found["gpu.runs_on_device"] = max(map(len, runs.values()))
    return found


def _scripts(probe: Probe) -> Mapping[str, Any]:
    """`sha256-now sha256-at-launch pid path`; "-" for one that was not there at launch."""
    rows = [line.split(None, 3) for line in probe.text.splitlines()]
    known = [row for row in rows if len(row) == 4 and row[1] != "-"]
    return {"run.script_drift": any(row[0] != row[1] for row in known)} if known else {}


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


READS = (
    Reader(r"^process tree$", _tree, r"^pid ppid start state "),
    Reader(r"^/proc/\d+/fd$", _open_files),
    Reader(r"^/proc/\d+/fd/0$", _stdin),
    Reader(r"^scripts$", _scripts),
    Reader(r"^device holders$", _holders),
)
