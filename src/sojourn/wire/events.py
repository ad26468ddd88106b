"""Events of a run as its keeper writes them: one JSON line each, one writer, torn tails tolerated by every reader.

Every event has `v` (1), `seq` (grows by one), `at` (UTC stamp of the box's clock), `kind`, `attempt`; KINDS lists its
other fields. A reader skips kinds it does not know, so a newer keeper does not blind an older client, nor the reverse.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # `typing` costs the resting keeper 0.5 MiB
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from sojourn.wire.documents import Event

VERSION = 1

# kind -> fields beside v, seq, at, kind, attempt. Seconds, bytes, cores; pids with `start` = field 22 of
# /proc/PID/stat. A field not measured this time is absent; null = looked for and not found.
KINDS = {
    "attempt": "token keeper{pid,start,digest} boot_id pid1_start host clock_offset"
    " limits{cpus,memory_bytes,cgroup} oom_kill oom_kill_file uptime_s kmsg_s groups{} cgroup cpu_stat room{} seat",
    "checked": "host cpus memory_bytes writes cards{gpus[],error} against[] faults[]"
    " nodes[{host,against[],faults[]}] seconds",
    "prepared": "code copied{files,bytes,linked,shared} setup{digest,seconds,reused}"
    " persisted carried mended torn vanished[] resumes",
    "started": "pid start pgid shim{pid,start}",
    "beat": "payload_s cpu_s rss_bytes threads cgroup_bytes oom_kill disk{path:{free_bytes,free_inodes}} gpu[]"
    " log_bytes log_age_s progress",
    "checkpoint": "path step bytes write_s",
    "restarted": "step resumes",
    "budget": "pct spent_s limit_s",
    "stalled": "quiet_s",
    "moving": "quiet_s",
    "adopted": "keeper{pid,start,digest} pid start",
    "signal": "signal why",
    "ended": "state rc signal seconds oom_kill_delta why by detail",
    "said": "text room{}",
    "judged": "native by state detail",
    "ruled": "rule number action line detail",
    "sealed": "manifest files bytes missing[] refused[] unnamed[] seconds",
    "refused": "why",
    "masked": "names{name:times}",
}
DURABLE = frozenset(
    ("attempt", "prepared", "started", "adopted", "checkpoint", "ended", "judged", "ruled", "sealed", "refused")
)  # fsynced


def line(seq: int, at: str, kind: str, attempt: int, fields: Dict[str, Any]) -> bytes:
    """One event as a line.

    Raises: ValueError for a kind that is not in KINDS, or a field that JSON cannot express (NaN).
    """
    if kind not in KINDS:
        raise ValueError("unknown event kind %r" % kind)
    head: Dict[str, Any] = {"v": VERSION, "seq": seq, "at": at, "kind": kind, "attempt": attempt}
    head.update(fields)
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A file name that is not UTF-8 (surrogates) becomes a JSON escape, which reads back unchanged.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def parse(data: bytes) -> Tuple[List[Event], int]:
    """(events, bytes used) of `data`, which starts at a line's start.

    A last line without newline is not used (its writer may still be writing, or died there). A whole line that is not
    JSON, or has no `kind`, was torn before a restart: used, but skipped.
    """
    used = data.rfind(b"\n") + 1
    events = []
    for raw in data[:used].split(b"\n"):
        event = parse_line(raw)
        if event is not None:
            events.append(event)
    return events, used


def parse_line(raw: bytes) -> Event | None:
    """The event on one line, or None if there is none (torn, empty, not an event)."""
    try:
        event: Any = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    is_event = isinstance(event, dict) and isinstance(event.get("kind"), str)
    found: Event | None = event if is_event else None
    return found
