"""What clients and launchers say: ssh, rsync, torchrun, NCCL. Source: OpenSSH 9.2, rsync 3.5, measured (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

_SSH = (
    ("hostkey", r"REMOTE HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for .* has changed"),
    ("hostkey_unknown", r"Host key verification failed|host key is known for"),  # a changed one is always announced
    ("auth", r"Permission denied \(|Too many authentication failures|no matching host key"),
    ("timeout_banner", r"timed out during banner exchange"),
    ("reset_kex", r"(?:kex|ssh)_exchange_identification"),
    ("refused", r"Connection refused"),
    ("dns", r"Could not resolve hostname|Name or service not known"),
    ("timeout_tcp", r"connect to .*(?:timed out|No route to host|Network is unreachable)"),
    (
        "closed_mid",
        r"client_loop: send disconnect|Timeout, server .* not responding|closed by remote host|Connection reset by",
    ),
)


def _ssh(probe: Probe) -> Mapping[str, Any]:
    said = probe.stderr or probe.text
    found: dict[str, Any] = {"ssh.stderr": said[-4000:]}
    if probe.rc is not None:
        found["ssh.rc"] = probe.rc
    kind = next((name for name, regex in _SSH if re.search(regex, said)), "")
    if kind:
        found["ssh.class"] = kind
    elif probe.rc is not None:
        # 255 without a word of the client may be the far shell's own end, so it proves nothing about the box.
        found["ssh.class"] = "ok" if probe.rc == 0 else "remote_exit"
    if kind in ("timeout_banner", "reset_kex", "auth", "hostkey", "hostkey_unknown"):
        found.update({"ssh.tcp_ok": True, "ssh.banner_ok": kind not in ("timeout_banner", "reset_kex")})
    if probe.rc == 0:
        found["box.logins_ok"] = True
    return found


def _copy(probe: Probe) -> Mapping[str, Any]:
    found: dict[str, Any] = {"xfer.tool": "rsync" if "rsync" in probe.name else "scp"}
    code = re.search(r"rsync error: .*\(code (\d+)\)", probe.stderr + probe.text)
    if code or probe.rc is not None:
        found["xfer.rc"] = int(code.group(1)) if code else probe.rc
    found["ssh.stderr"] = (probe.stderr or probe.text)[-4000:]
    return found


def of_end(text: str) -> dict[str, Any]:
    """What the lines that ended a run tell beside their patterns: children that were killed first, limits, sizes."""
    found: dict[str, Any] = {}
    block = re.search(r"Root Cause \(first observed failure\).*", text, re.S)
    source = block.group(0) if block else text
    signals = [int(code) for code in re.findall(r"exitcode\s*:\s*(-\d+)", source)]
    # -15 is what the launcher sends to the survivors, -6 how a watchdog ends a rank whose collective did not come.
    is_watchdog = "taking the entire process down" in text or "Watchdog caught collective" in text
    signals = [code for code in signals if code != -15 and not (code == -6 and is_watchdog)]
    if block or signals:
        found["run.child_signals"] = signals[:1] if block else signals
    if limit := re.search(r"Watchdog caught collective operation timeout.*?Timeout\(ms\)=(\d+)", text):
        found["mn.timeout_ms"] = int(limit.group(1))
    found.update(_full_gpu(text))
    return found


def of_notices(text: str) -> dict[str, Any]:
    """What a log states of its surroundings, whether the run went on or not."""
    device = re.search(r"NET/(?:Socket|IB) : Using (?:\[\d+\])?(\w[\w.-]*)", text)
    return {"mn.nic": device.group(1)} if device else {}


_SIZE = r"(\d+(?:\.\d+)?) ?(bytes|[KMGT]i?B)"
# Source: c10/cuda/CUDACachingAllocator.cpp of torch 1.13 to 2.9 ("capacty" up to 2.1), XLA and TensorFlow (2026-11).
_GPU = (
    ("run.gpu_tried", re.compile(rf"(?i)tr(?:ied|ying) to allocate {_SIZE}")),
    ("run.gpu_free", re.compile(rf"(?i)(?:of which |; ){_SIZE} (?:is )?free")),
    ("run.gpu_total", re.compile(rf"(?i)total capaci?ty of {_SIZE}|{_SIZE} total capacity")),
)
_UNITS = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def _full_gpu(text: str) -> dict[str, Any]:
    """What the last message about a full GPU says: tried, free and total, in bytes."""
    said = [line for line in text.splitlines() if "out of memory" in line.lower() and _GPU[0][1].search(line)]
    found: dict[str, Any] = {}
    for name, regex in _GPU if said else ():
        if match := regex.search(said[-1]):
            number, unit = [group for group in match.groups() if group]
            found[name] = int(float(number) * 1024 ** _UNITS[unit[0].upper()])
    return found


READS = (
    Reader(r"^ssh\b", _ssh, hears_silence=True),
    Reader(r"\brsync\b|\bscp\b", _copy, r"^rsync: |rsync error: ", hears_silence=True),
)
