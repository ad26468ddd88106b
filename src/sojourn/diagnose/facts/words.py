"""What clients and launchers say: ssh, rsync, torchrun, NCCL. Source: OpenSSH 9.2, rsync 3.5, measured (2026-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader

_SSH = (
    ("hostkey", r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED"),
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
    if kind in ("timeout_banner", "reset_kex", "auth", "hostkey"):
        found.update({"ssh.tcp_ok": True, "ssh.banner_ok": kind in ("auth", "hostkey")})
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


def of_log(text: str) -> dict[str, Any]:
    """What a run's log tells beside its patterns: children that were killed first, limits, devices, the tracker."""
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
    if device := re.search(r"NET/(?:Socket|IB) : Using (?:\[\d+\])?(\w[\w.-]*)", text):
        found["mn.nic"] = device.group(1)
    return found


READS = (
    Reader(r"^ssh\b", _ssh, hears_silence=True),
    Reader(r"\brsync\b|\bscp\b", _copy, r"^rsync: |rsync error: ", hears_silence=True),
)
