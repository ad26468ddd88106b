"""What `doctor` asks a box beside the keeper's hello, and its findings. Pure but for the text of the question.

The question is a shell script, so that it is answered also where no Python is found or the base cannot be written.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.core.need import Need
from sojourn.core.values import Evidence, Finding, Site
from sojourn.verbs.launch import preflight
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

FULL_PCT = 95.0  # of a disk's bytes or inodes
FAR_BELOW = 0.5  # a limit under this part of what the machine shows is not what `free` and `nproc` make you expect
SKEW_S = 2.0  # beyond what the two ways of the question may take

# $1 base, "" for the default. One `word TAB value` a line. A folder that does not exist yet is tried by its parent.
# Precedence of logind.conf: logind.conf(5) of systemd 252 (2026-11).
PROBE = r"""
say() { printf '%s\t%s\n' "$1" "$2"; }
base=${1:-${HOME:-$(cd ~ && pwd)}/.local/share/sojourn}
say base "$base"
at=$base
while [ ! -e "$at" ] && [ "$at" != / ]; do at=$(dirname "$at"); done
say base_parent "$at"
try=$at/.sojourn-doctor-$$
if why=$( (: >"$try") 2>&1); then rm -f "$try"; say base_writable yes; else say base_writable "no: ${why##*: }"; fi
n=0; for f in /dev/nvidia[0-9]*; do [ ! -e "$f" ] || n=$((n + 1)); done; say nvidia_nodes "$n"
say uid "$(id -u)"
[ ! -d /run/systemd/system ] || say booted_systemd yes
say session "$(sed -n 's/.*\/\(session-[^/]*\.scope\).*/\1/p' /proc/self/cgroup 2>/dev/null | head -n 1)"
value() { sed -n 's/^[[:space:]]*KillUserProcesses[[:space:]]*=[[:space:]]*//p' "$1" 2>/dev/null | tail -n 1; }
for f in /usr/lib/systemd/logind.conf /etc/systemd/logind.conf /usr/lib/systemd/logind.conf.d/*.conf \
  /usr/local/lib/systemd/logind.conf.d/*.conf /run/systemd/logind.conf.d/*.conf /etc/systemd/logind.conf.d/*.conf; do
  [ ! -f "$f" ] || say logind "$f $(value "$f")"
done
"""


_WORDS = ("base", "base_parent", "base_writable", "nvidia_nodes", "uid", "booted_systemd", "session")
_VALUE_CHARS = 1000


def parse_probe(said: bytes) -> dict[str, Any]:
    """The answer to PROBE: its words, and `kill_user_processes` (yes, no) with `kill_user_processes_from` (a path).

    Lines that a login file put between are left out.
    """
    found: dict[str, Any] = {}
    main, drop_ins = "", dict[str, tuple[str, str]]()
    for line in said.decode("utf-8", "replace").splitlines():
        word, tab, value = line.partition("\t")
        if not tab:
            continue
        if word != "logind":
            if word in _WORDS:
                found[word] = value[:_VALUE_CHARS]
            continue
        path, _, setting = value.partition(" ")
        if path.endswith("/logind.conf"):
            main = value  # /etc hides /usr/lib
        else:
            drop_ins[posixpath.basename(path)] = (path, setting)  # the same name further down hides this one
    path, _, setting = main.partition(" ")
    for name in sorted(drop_ins):
        path, setting = drop_ins[name] if drop_ins[name][1] else (path, setting)
    if found:
        is_on = setting.strip().lower() in ("yes", "true", "on", "1", "y", "t")
        found["kill_user_processes"] = "yes" if is_on else "no"
        found["kill_user_processes_from"] = path if setting else ""
    return found


def check_site(site: Site, survives: Iterable[str], hello: Hello, probe: Mapping[str, Any]) -> list[Finding]:
    """Findings, blockers first. `survives`: the launcher's trait. What is not known gives no finding."""
    at = str(hello.get("now", ""))
    found = [*_base(probe, at), *_logout(site, set(survives), probe, at)]
    if hello:
        room = preflight.Room(preflight.SPARE_BYTES, preflight.SPARE_INODES, 0, 0)
        blockers = preflight.check_need(hello, Need(), room)
        found += blockers
        if not any(f.id in ("disk-too-small", "inodes-too-few") for f in blockers):
            found += _full(hello, at)
        found += [*_limits(hello, at), *_gpus(hello, probe, at), *_clock(hello, at)]
    order = ("blocker", "warning", "note")
    return sorted(found, key=lambda f: order.index(f.severity))


def _base(probe: Mapping[str, Any], at: str) -> Sequence[Finding]:
    said = str(probe.get("base_writable", "yes"))
    if said == "yes":
        return ()
    return [
        Finding(
            "base-not-writable",
            "confirmed",
            f"{probe.get('base', 'the base')} cannot be written{said.removeprefix('no')}",
            "blocker",
            "a run keeps everything below it: code, logs, checkpoints",
            "set the site's `base` to a writable folder that outlives the machine",
            evidence=(Evidence("base_writable", said, f"a file created in {probe.get('base_parent', 'it')}", at),),
        )
    ]


def _logout(site: Site, survives: set[str], probe: Mapping[str, Any], at: str) -> Sequence[Finding]:
    """Only what runs in a login session's scope is killed with it; root is exempt unless somebody changed that too."""
    is_killed = probe.get("kill_user_processes") == "yes" and probe.get("booted_systemd") == "yes"
    if not is_killed or not probe.get("session") or probe.get("uid") == "0" or site.launcher == "systemd":
        return ()
    return [
        Finding(
            "kill-user-processes",
            "confirmed",
            f"a logout kills what the launcher {site.launcher} started",
            "blocker",
            "KillUserProcesses=yes: systemd ends every process of a login session with the session",
            'set launcher = "systemd" for the site and run there: loginctl enable-linger',
            evidence=(
                Evidence("KillUserProcesses", "yes", str(probe["kill_user_processes_from"]), at),
                Evidence("session", probe["session"], "/proc/self/cgroup", at),
            ),
        )
    ]


def _full(hello: Hello, at: str) -> Sequence[Finding]:
    disk = preflight.base_disk(hello)
    found = []
    for what, slug, fix in (
        ("bytes", "disk-nearly-full", "free some space there (du -xh --max-depth=2 / | sort -h)"),
        ("inodes", "inodes-nearly-used-up", "remove files there (df -i; du --inodes -x / | sort -n)"),
    ):
        free, total = disk.get(f"free_{what}"), disk.get(f"total_{what}")
        if not total or free is None or 100.0 * (total - free) / total < FULL_PCT:
            continue
        left = f"{units.say_bytes(free)} are left" if what == "bytes" else f"{free:,} files more have room"
        title = f"{disk['path']} is {100.0 * (total - free) / total:.1f} % full of {what}; {left}"
        cause = "checkpoints and logs need room; a disk can run out of inodes while bytes are free"
        seen = Evidence(f"free_{what}", free, f"statvfs {disk['path']}", at)
        found.append(Finding(slug, "confirmed", title, "warning", cause, fix, evidence=(seen,)))
    return found


def _limits(hello: Hello, at: str) -> Sequence[Finding]:
    cgroup = hello.get("cgroup") or {}
    memory, limit = hello.get("memory_bytes"), cgroup.get("memory_limit_bytes")
    if not memory or not limit or limit >= FAR_BELOW * memory:
        return ()
    return [
        Finding(
            "memory-limit",
            "confirmed",
            f"{units.say_bytes(limit)} of memory for you; `free` shows the machine's {units.say_bytes(memory)}",
            "warning",
            "a control group limits this container or user; the kernel kills what exceeds it, whatever `free` shows",
            "size batches, workers and caches to fit the limit",
            evidence=(
                Evidence("memory_limit_bytes", limit, f"cgroup v{cgroup.get('version')}", at),
                Evidence("memory_bytes", memory, "/proc/meminfo", at),
            ),
        )
    ]


def _gpus(hello: Hello, probe: Mapping[str, Any], at: str) -> Sequence[Finding]:
    told = str(probe.get("nvidia_nodes") or "0")
    nodes = int(told) if re.fullmatch("[0-9]{1,5}", told) else 0
    if not nodes or hello.get("gpus"):
        return ()
    return [
        Finding(
            "gpu-without-driver",
            "confirmed",
            f"/dev has {nodes} NVIDIA device node{'' if nodes == 1 else 's'}, but the driver's library lists no GPU",
            "warning",
            "libnvidia-ml.so.1 is missing or does not match the kernel's driver, or the GPU is lost",
            "run nvidia-smi there and read its output; in a container, request the GPU with its driver libraries",
            evidence=(Evidence("nvidia_nodes", nodes, "/dev/nvidia[0-9]*", at), Evidence("gpus", [], "NVML", at)),
        )
    ]


def _clock(hello: Hello, at: str) -> Sequence[Finding]:
    offset_s, unsure_s = hello.get("clock_offset_s"), float(hello.get("clock_unsure_s") or 0.0)
    if offset_s is None or abs(offset_s) - unsure_s < SKEW_S:
        return ()
    word = "ahead of" if offset_s > 0 else "behind"
    return [
        Finding(
            "clock-offset",
            "confirmed",
            f"its clock is {units.say_seconds(abs(offset_s))} {word} this machine's",
            "note",
            "one of the two clocks is wrong; ages are measured on the box alone, so nothing here relies on it",
            "timedatectl set-ntp true (on the one that is wrong)",
            evidence=(Evidence("clock_offset_s", round(offset_s, 1), f"hello, +- {unsure_s:.2f} s", at),),
        )
    ]
