"""Files of a run: its manifest, and bytes of files in its root."""

from __future__ import annotations

import os
import time

from sojourn.box.call import Box, Refused
from sojourn.box.run import roster, secrets
from sojourn.box.run.root import read_fields, read_spec
from sojourn.box.run.want import find_root, last_attempt
from sojourn.box.system import opening
from sojourn.wire import manifest as rows
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_READ_BYTES = 8 << 20
_BLOCK = 64 << 10


def manifest(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """The manifest of a run: the sealed one, or one taken now (`fresh`, or the newest attempt is unsealed, or was
    sealed by an earlier keeper, which covered that attempt alone).

    A fresh one rereads every byte: size and time do not prove content. Except files in `known` ({"from":
    {"stat","bytes","sha256"}}): those from the caller's earlier fresh manifest whose stat is unchanged to the
    nanosecond. `also`: outputs that the user named later; then it is always a fresh one.
    """
    root = find_root(box, str(request["run"]))
    last = last_attempt(root)
    also = [str(path) for path in request.get("also") or ()]
    if not request.get("fresh") and not also:
        sealed: Any = read_fields(root.manifest)
        if sealed.get("attempt") == last and rows.is_of_every_attempt(sealed):
            return {"manifest": sealed, "sealed": True}
    known = request.get("known")
    at = units.stamp(time.time())
    taken = roster.take_manifest(root, read_spec(root), last, at, known if isinstance(known, dict) else None, also)
    return {"manifest": taken, "sealed": False}


def read(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Bytes of one file below the root: `path`, or `log` = an attempt's number (0: the newest).

    `offset` and `length`, or `tail_lines`. Answer: size, offset (of the first byte sent), aside (changes when the file
    is rotated), and one B frame. The run's secrets are hidden in logs. Refused: unsafe-path, no-such-file.
    """
    root = find_root(box, str(request["run"]))
    path = request.get("path")
    if path is None:
        path = "logs/%d.log" % (int(request.get("log") or 0) or last_attempt(root))
    if not rows.is_safe(path):
        raise Refused("unsafe-path", "%r is not inside the run's root" % path)
    full = os.path.join(root.path, path)
    why, real = opening.below(root.path, full)
    if why:
        if not os.path.lexists(full):
            raise Refused("no-such-file", "no %s" % path)
        raise Refused("unsafe-path", "%s: %s" % (path, why))
    # Read before the log is opened: once secrets are gone, they were hidden in the log itself.
    values = secrets.read_secrets(root) if path.startswith("logs/") else {}
    length = max(0, min(int(request.get("length") or _READ_BYTES), _READ_BYTES))
    with open(opening.open_below(root.path, real), "rb", buffering=0) as f:
        size = os.fstat(f.fileno()).st_size
        offset = max(0, int(request.get("offset") or 0))
        if request.get("tail_lines") is not None:
            offset = _tail(f, size, int(request["tail_lines"]), length)
        elif offset > size:  # it was rotated
            offset = 0
        if values:
            data = secrets.read_masked(root, f, offset, length, values)
        else:
            f.seek(offset)
            data = f.read(length) or b""
    box.blobs.append(data)
    return {"size": size, "offset": offset, "path": path, "aside": _aside(real)}


def _aside(path: str) -> str:
    """Identifies the latest rotated part of this log; "" if there is none. The log's own size cannot."""
    try:
        found = os.stat(path + ".1")
    except OSError:
        return ""
    return "%d:%d:%d" % (found.st_ino, found.st_size, found.st_mtime_ns)


def _tail(f: Any, size: int, lines: int, limit_bytes: int) -> int:
    """The start of the last `lines` lines, at most `limit_bytes` before the end."""
    at, found, floor = size, b"", max(0, size - limit_bytes)
    if lines <= 0:
        return size
    while at > floor:
        step = min(_BLOCK, at - floor)
        at -= step
        f.seek(at)
        found = f.read(step) + found
        body = found[:-1] if found.endswith(b"\n") else found
        if body.count(b"\n") >= lines:
            cut = len(body)
            for _ in range(lines):
                cut = body.rfind(b"\n", 0, cut)
            return at + cut + 1
    return at
