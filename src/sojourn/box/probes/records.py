"""The run's own files: events, exit record, progress, requests, and who is in charge."""

from __future__ import annotations

import os
import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import process, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_LINES = 400
_FILE_BYTES = 16 << 10


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """events.jsonl (of this attempt, and the starts and ends of earlier ones), exits/N.json, exits/N.begun.json,
    progress/N.json with its age_s, stop.json and want.json if present, keeper.json with alive."""
    root, number = context.root, context.attempt
    lines = [raw.plain(line).rstrip("\n") for line in context.lines if _is_its(line, number)]
    found = {"events.jsonl": raw.text("".join(line + "\n" for line in lines[:20] + lines[20:][-_LINES:]))}
    for name, path in (
        ("exits/%d.json" % number, root.exit(number)),
        ("exits/%d.begun.json" % number, root.begun(number)),
        ("progress/%d.json" % number, root.progress(number)),
        ("stop.json", root.stop),
        ("want.json", root.want),
        ("keeper.json", root.keeper),
    ):
        if os.path.lexists(path) or name.startswith("exits/%d.json" % number):
            found[name] = raw.read_entry(path, _FILE_BYTES)
            found[name].update(_age(path))
    if "keeper.json" in found:
        keeper = context.keeper
        pid, start = keeper.get("pid") or 0, keeper.get("start") or 0
        if keeper.get("host") in (None, context.host):
            found["keeper.json"]["alive"] = process.is_alive(pid, start)
    return found


def _is_its(line: bytes, number: int) -> bool:
    """Whether a line belongs to this attempt, or to the start or end of an earlier one."""
    head = line[:200]
    if b'"attempt":%d,' % number in head or b'"attempt":%d}' % number in head:
        return True
    return any(b'"kind":"%s"' % kind in head for kind in (b"attempt", b"ended", b"refused"))


def _age(path: str) -> Dict[str, float]:
    try:
        return {"age_s": round(time.time() - os.stat(path).st_mtime, 3)}
    except OSError:
        return {}
