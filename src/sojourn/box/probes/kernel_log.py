"""The kernel's log: out-of-memory kills, Xid, crashes, failing disks. A denial is kept: it shows what cannot be known.

Read from /dev/kmsg, which costs no process; else through dmesg, else through journalctl.
"""

from __future__ import annotations

import errno
import re

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import kmsg, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

NAME = "dmesg"
_DRIVER = b"NVRM"
_TAIL = 60  # of any kind, beside all the notable ones
_NOTABLE = 500
_LOOK_S = 0.5
_PROGRAM_S = 0.7
NOTABLE = re.compile(
    r"(?i)oom|out of memory|killed process|killed as a result|page allocation failure|NVRM|nvidia|\bxid\b|nvlink"
    r"|nvswitch|fabric|amdgpu|segfault|general protection|traps?:|invalid opcode|divide error|i/o error|buffer i/o"
    r"|journal|ext4-fs|xfs[ (]|btrfs|f2fs|remount|read-only|nfs:|nfs4|lustre|fuse:|ceph|blocked for more than|hung task"
    r"|soft lockup|hard lockup|rcu.*stall|mce:|machine check|edac|hardware error|aer:|pcie|thermal|throttl|nvme|ata\d"
    r"|reset|link is (?:down|up)|carrier|infiniband|mlx\d|no space|quota|fork rejected|pids|panic|bug:"
)


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """NAME: "[seconds.micro] text" per line: all notable lines since launch, the GPU driver's from before, and the last
    lines of any kind. `lines`: how many the ring holds."""
    reading = kmsg.Reading(_LOOK_S)
    since = context.launch.get("kmsg_s")
    since_us = int(since * 1e6) if isinstance(since, (int, float)) else 0
    try:
        rows = [(us, text) for us, text in reading.lines()]
    except OSError as error:
        return {NAME: _by_program(error)}
    last = max(0, len(rows) - _TAIL)
    kept = [
        row for row in rows[:last] if _DRIVER in row[1] or (row[0] > since_us and NOTABLE.search(raw.plain(row[1])))
    ]
    texts = [
        "[%5d.%06d] %s" % (us // 1000000, us % 1000000, raw.plain(text)) for us, text in kept[-_NOTABLE:] + rows[last:]
    ]
    return {NAME: raw.lines(texts, len(texts), lines=len(rows), source="kmsg", cut=reading.is_cut)}


def _chosen(texts: List[str]) -> raw.Entry:
    """The notable and the last lines of a program's output, in order."""
    last = max(0, len(texts) - _TAIL)
    kept = [text for text in texts[:last] if NOTABLE.search(text)][-_NOTABLE:] + texts[last:]
    return raw.lines(kept, len(kept), lines=len(texts))


def _by_program(error: OSError) -> raw.Entry:
    """The output of dmesg or the journal; or their refusal, or that both are missing."""
    entry = raw.run(["dmesg"], _PROGRAM_S, 4 << 20)
    if entry["rc"] == 0:
        return dict(_chosen(entry["stdout"].splitlines()), source="dmesg")
    journal = raw.run(
        ["journalctl", "-k", "-b", "--no-pager", "-q", "-n", "3000", "-o", "short-monotonic"], _PROGRAM_S, 4 << 20
    )
    if journal["rc"] == 0 and journal["stdout"].strip():
        texts = [re.sub(r"^(\[\s*\d+\.\d+\]) \S+ kernel: ", r"\1 ", line) for line in journal["stdout"].splitlines()]
        return dict(_chosen(texts), source="journalctl")
    if error.errno in (errno.EPERM, errno.EACCES):
        return raw.text("", 1, "dmesg: read kernel buffer failed: Operation not permitted", source="kmsg")
    return dict(entry, rc=entry["rc"] or 1, stdout="", stderr=entry["stderr"] or raw.said(error), source="dmesg")
