"""What happened since: one answer for every run of the box, with pulses and ages beside the new events."""

from __future__ import annotations

import os
import time

from sojourn.box.call import Box
from sojourn.box.ops import queue
from sojourn.box.run import locks
from sojourn.box.run.progress import Progress
from sojourn.box.run.root import Root, closed, is_placed, names_in, read_fields, spec_fields
from sojourn.box.run.want import find_root, last_attempt, pulse, supervise_argv
from sojourn.box.system import machine, opening, process
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_LIMIT_BYTES = 8 << 20
_UNSEEN = {"identity": None, "keeper": "unknown", "payload": "unknown", "more": False, "beat_age_s": None}
_LINE_BYTES = 1 << 20  # a line that does not fit is sent whole up to this size, so that every answer makes progress


def since(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`runs`: {id: offset}, or null for all of the box. Answer: `runs`, one entry each, and one B frame each in the
    same order.

    `moved`: also {id: offset}, for runs answered only if their events have grown beyond it. An id without a root is
    left out. Whole lines only; `more` says that there was no room for all. If no keeper lives, `argv` starts one. A
    cell of a sweep, and a plain run waiting in the box's queue or started by it, also have their `queue`:
    {"keeper","waiting","living","argv"}, and while they wait their `place`, from 1.
    """
    asked = request.get("runs")
    offsets = dict.fromkeys(_all(box), 0) if asked is None else dict(asked)
    for run, offset in (request.get("moved") or {}).items():
        events = _stat(find_root(box, run, must_exist=False).events)
        if events is not None and events.st_size > int(offset):
            offsets[run] = offset
    left = int(request.get("limit_bytes") or _LIMIT_BYTES)
    rows = []
    queues: Dict[str, Any] = {}
    for run in sorted(offsets):
        root = find_root(box, run, must_exist=False)
        if not is_placed(root):
            continue
        if closed(root.path):  # nobody can say what it does
            rows.append(dict(_UNSEEN, id=run, root=root.path, attempt=0, offset=int(offsets[run])))
            box.blobs.append(b"")
            continue
        data, offset, more = _new_lines(root.events, int(offsets[run]), left)
        left -= len(data)
        row = dict(_now(root), id=run, offset=offset, more=more)
        sweep = str(spec_fields(root).get("sweep") or "")
        standing = queue.of_run(box, run, sweep, queues)
        if standing:
            row["queue"] = standing
        if row["keeper"] != "alive":
            row["argv"] = supervise_argv(box, root)
        rows.append(row)
        box.blobs.append(data)
    return {"runs": rows}


def _all(box: Box) -> List[str]:
    return [name for name in names_in(box.under("runs")) if names.is_root(name)]


def _new_lines(path: str, offset: int, limit_bytes: int) -> Tuple[bytes, int, bool]:
    """(whole lines from `offset` on, the offset after them, whether more follow)."""
    try:
        with opening.open_plain(path) as f:
            size = os.fstat(f.fileno()).st_size
            if offset > size:  # not our file any more: send it from the start, the reader identifies events by number
                offset = 0
            f.seek(offset)
            data = f.read(max(0, limit_bytes))
            if limit_bytes > 0 and b"\n" not in data:
                data += f.read(_LINE_BYTES)
    except OSError:
        return b"", offset, False
    data = data[: data.rfind(b"\n") + 1]
    return data, offset + len(data), offset + len(data) < size


def _now(root: Root) -> Dict[str, Any]:
    number = last_attempt(root)
    now = time.time()
    log, events = _stat(root.log(number)), _stat(root.events)
    progress = Progress(root.progress(number))
    progress.look()
    return {
        "root": root.path,
        "identity": spec_fields(root).get("identity"),
        "attempt": number,
        "keeper": pulse(root),
        "payload": payload_pulse(root, number),
        "log_age_s": None if log is None else round(max(0.0, now - log.st_mtime), 1),
        "log_bytes": None if log is None else log.st_size,
        "beat_age_s": None if events is None else round(max(0.0, now - events.st_mtime), 1),
        "progress": progress.value,
    }


def payload_pulse(root: Root, number: int) -> str:
    """The payload of an attempt: alive, gone, none (it was not started), unknown (it was on another machine), held
    (something lives, and only a keeper can say what: a shim that has not yet reported its payload, or leftovers of an
    ended payload).
    """
    begun = read_fields(root.begun(number))
    host = read_fields(root.keeper).get("host")
    if begun and host not in (None, machine.host()):
        return "unknown"
    was_here = begun.get("boot_id") == machine.boot_id()
    if was_here and process.is_alive(begun.get("pid", 0), begun.get("start", 0)):
        return "alive"
    if locks.is_held(root):
        return "alive" if was_here and not os.path.exists(root.exit(number)) else "held"
    return "gone" if begun else "none"


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
