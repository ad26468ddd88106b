"""The end of the attempt's log, and its beginning if the end does not reach it; its size and age."""

from __future__ import annotations

import os
import time

from sojourn.box.run import secrets
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_HEAD_BYTES = 8 << 10


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`logs/N.log` with size, offset, mtime, age_s; `logs/N.log head`. Unchanged bytes, whole lines, secrets hidden.

    Ages compare this machine's clock with the file system's, which may be another machine's.
    """
    name = "logs/%d.log" % context.attempt
    path = context.root.log(context.attempt)
    values = secrets.read_secrets(context.root)
    try:
        with open(path, "rb", buffering=0) as f:
            s = os.fstat(f.fileno())
            offset = max(0, s.st_size - context.log_bytes)
            data = secrets.read_masked(context.root, f, offset, context.log_bytes, values)
            head = b""
            if offset:
                head = secrets.read_masked(context.root, f, 0, min(_HEAD_BYTES, offset), values)
                skip = data.find(b"\n") + 1
                if skip < len(data):
                    offset, data = offset + skip, data[skip:]
    except OSError as error:
        return {name: raw.refused(error)}
    more: Dict[str, Any] = {
        "size": s.st_size + _rotated(path),
        "offset": offset,
        "mtime": units.stamp(s.st_mtime),
        "age_s": round(time.time() - s.st_mtime, 3),
    }
    found = {name: raw.text(raw.plain(data), **more)}
    if head:
        found[name + " head"] = raw.text(raw.plain(head[: head.rfind(b"\n") + 1 or len(head)]), cut=True)
    return found


def _rotated(path: str) -> int:
    try:
        return os.stat(path + ".1").st_size
    except OSError:
        return 0
