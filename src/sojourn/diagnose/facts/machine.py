"""Boot, processes and limits from /proc. Source: proc(5) (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader


def _boot_id(probe: Probe) -> Mapping[str, Any]:
    before, now = probe.kept("boot_id", "box.boot_id"), probe.text.strip()
    return {"box.boot_id_changed": now != before} if before and now else {}


def _hostname(probe: Probe) -> Mapping[str, Any]:
    before, now = probe.kept("hostname", "host"), probe.text.strip()
    return {"box.hostname_changed": now != before} if before and now else {}


def _stat(probe: Probe) -> Mapping[str, Any]:
    """/proc/PID/stat; of PID 1 it tells a restart, of the payload its state."""
    fields = probe.text[probe.text.rfind(")") + 2 :].split()
    if len(fields) < 20:
        return {}
    start = int(fields[19])
    if re.search(r"/1/stat$", probe.name):
        before = probe.kept("pid1_start", "box.pid1_start")
        return {"box.pid1_changed": start != before} if isinstance(before, int) and before else {}
    before = probe.kept("start", "payload_start", "run.start")
    is_ours = before is None or start == before
    found: dict[str, Any] = {"run.alive": fields[0] not in "ZX" and is_ours}
    if is_ours:
        found.update({"run.state": fields[0], "run.tty": fields[4] != "0", "run.threads": int(fields[17])})
    return found


def _status(probe: Probe) -> Mapping[str, Any]:
    rows = dict(re.findall(r"^(\w+):\s+(.*)$", probe.text, re.M))
    found: dict[str, Any] = {}
    if "State" in rows:
        found.update({"run.state": rows["State"][0], "run.alive": rows["State"][0] not in "ZX"})
    if rows.get("Threads", "").isdigit():
        found["run.threads"] = int(rows["Threads"])
    allowed = _cores(rows.get("Cpus_allowed_list", ""))
    environ = next((text for name, text in probe.others.items() if name.endswith("/environ")), "")
    if allowed and _values(environ).get("SLURM_CPUS_PER_TASK"):  # of a step of Slurm, whose share is a cpuset
        found["sl.cpus_seen"] = allowed
    return found


def _cores(ranges: str) -> int:
    """How many cores a list such as 0-3,8 names; 0 for what is none."""
    parts = [re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part) for part in ranges.strip().split(",")]
    return sum(int(one.group(2) or one.group(1)) - int(one.group(1)) + 1 for one in parts if one) if all(parts) else 0


def _limits(probe: Probe) -> Mapping[str, Any]:
    found = re.search(r"^Max open files\s+(\d+)", probe.text, re.M)
    return {"run.open_files_limit": int(found.group(1))} if found else {}


def _environ(probe: Probe) -> Mapping[str, Any]:
    values = _values(probe.text)
    omp, cpus = values.get("OMP_NUM_THREADS", ""), values.get("SLURM_CPUS_PER_TASK", "")
    found: dict[str, Any] = {
        "run.env": dict.fromkeys(values, ""),
        "env.pythonunbuffered": bool(values.get("PYTHONUNBUFFERED")),
        "env.omp": int(omp) if omp.isdigit() else None,
        "net.mirror_env": {name: values[name] for name in _MIRRORS if values.get(name)} or None,
    }
    if cpus.isdigit():
        found["sl.cpus_requested"] = int(cpus)
    return found


_MIRRORS = ("HF_ENDPOINT", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "CONDA_CHANNELS", "MODELSCOPE_DOMAIN")


def _values(environ: str) -> dict[str, str]:
    return dict(re.findall(r"(?:^|\0|\n)([A-Za-z_]\w*)=?([^\0\n]*)", environ))


def _cmdline(probe: Probe) -> Mapping[str, Any]:
    words = [word for word in probe.text.split("\0") if word]
    return {"run.argv": words} if words else {}


def _load(probe: Probe) -> Mapping[str, Any]:
    found = re.match(r"\s*([\d.]+) ", probe.text)
    return {"box.load1": float(found.group(1))} if found else {}


def _uptime(probe: Probe) -> Mapping[str, Any]:
    found = re.match(r"\s*([\d.]+) [\d.]+\s*$", probe.text)
    return {"box.uptime_s": float(found.group(1))} if found else {}


def _meminfo(probe: Probe) -> Mapping[str, Any]:
    rows = dict(re.findall(r"^(Mem\w+):\s+(\d+) kB", probe.text, re.M))
    named = (("MemAvailable", "box.mem_available"), ("MemTotal", "box.mem_total"))
    return {name: int(rows[key]) * 1024 for key, name in named if key in rows}


def _free(probe: Probe) -> Mapping[str, Any]:
    """`free`, in KiB unless its numbers carry a unit (-h); the last column is what is available."""
    found = re.search(r"^\s*Mem:\s+(\S+)\s.*?(\S+)\s*$", probe.text, re.M)
    if not found or "available" not in probe.text:
        return {}
    sizes = [re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i|B|iB)?", word) for word in found.groups()]
    if not all(sizes):
        return {}
    total, left = (int(float(one.group(1)) * 1024 ** (" KMGT".index(one.group(2) or "K"))) for one in sizes if one)
    return {"box.mem_total": total, "box.mem_available": left}


def _affinity(probe: Probe) -> Mapping[str, Any]:
    return {"box.affinity": int(probe.text)} if probe.text.strip().isdigit() else {}


def _nproc(probe: Probe) -> Mapping[str, Any]:
    return {"box.nproc": int(probe.text)} if probe.text.strip().isdigit() else {}


def _ps(probe: Probe) -> Mapping[str, Any]:
    """`ps -eo pid,ppid,stat,etimes,rss,args`: the payload by its pid, and its DataLoader workers."""
    rows = [line.split(None, 5) for line in probe.text.splitlines()[1:]]
    rows = [row for row in rows if len(row) == 6 and row[0].isdigit()]
    pid = probe.kept("pid", "payload_pid", "run.pid")
    if not rows or not isinstance(pid, int):
        return {}
    its = next((row for row in rows if int(row[0]) == pid), None)
    found: dict[str, Any] = {}
    if not any(re.search(rf"/proc/{pid}/stat$|^process tree$", name) for name in probe.others):
        found["run.alive"] = its is not None and its[2][0] not in "ZX"  # a pid alone may be another's by now
    if its is not None:
        found.update({"run.state": its[2][0], "run.age_s": float(its[3])})
        tree = {str(pid)}
        for _ in range(6):
            tree |= {row[0] for row in rows if row[1] in tree}
        found["run.shell_scripts"] = sum(1 for row in rows if row[0] in tree and _reads_script(row[5]))
        found["run.workers"] = sum(1 for row in rows if row[0] in tree and "pt_data_worker" in row[5])
    return found


def _reads_script(command: str) -> bool:
    """Whether a command line is a shell that reads a file, rather than what stands after -c."""
    words = command.split()
    if not words or not re.fullmatch(r"(?:\S*/)?(?:ba|da|z|k)?sh", words[0]):
        return False
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            return True
        if not word.startswith("--") and "c" in word:
            return False
        if word.endswith("o"):  # -o, -eo: the name of an option follows
            next(rest, "")
    return False


READS = (
    Reader(r"boot_id$", _boot_id),
    Reader(r"^hostname$|/hostname$", _hostname),
    Reader(r"/proc/\d+/stat$|pid1_stat$", _stat),
    Reader(r"/proc/\d+/status$", _status),
    Reader(r"/limits$", _limits),
    Reader(r"/environ$", _environ),
    Reader(r"/cmdline$", _cmdline),
    Reader(r"loadavg$", _load),
    Reader(r"/uptime$|^uptime$", _uptime),
    Reader(r"meminfo$", _meminfo),
    Reader(r"^free\b", _free, r"^\s+total\s+used\s+free\b"),
    Reader(r"^nproc$", _nproc),
    Reader(r"^affinity$", _affinity),
    Reader(r"^ps\b", _ps, r"^\s*PID\s+PPID\s+STAT"),
)
