"""`send`: many files below a run's root in one stream, as described in `wire.pieces`."""

from __future__ import annotations

import os

from sojourn.box.call import Box, Refused
from sojourn.box.run.want import find_root
from sojourn.box.system import opening
from sojourn.wire import manifest, pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List


def send(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`files`: [path below the root, offset, bytes] each: the file from that offset, up to that many bytes in total.

    The stream follows the answer; its numbers count `files` from 0. A file that is missing, not regular, outside the
    root, or shorter ends with the mark for the end of its content.
    """
    root = find_root(box, str(request["run"])).path
    for path, offset, size in request["files"]:
        if not manifest.is_safe(path) or offset < 0 or size < offset:
            raise Refused("unsafe-path", "%r does not lie in the run's root" % path)
    box.stream = pieces.packed(_parts(root, request["files"]))
    return {"files": len(request["files"])}


def _parts(root: str, files: List[Any]) -> Iterator[pieces.Part]:
    for number, (path, offset, size) in enumerate(files):
        why, real = opening.below(root, os.path.join(root, path))
        try:
            fd = -1 if why else opening.open_below(root, real)
        except OSError:
            fd = -1
        if fd < 0:
            yield number, offset, None
            continue
        with open(fd, "rb", buffering=0) as f:
            f.seek(offset)
            while offset < size:
                try:
                    data = f.read(min(pieces.FRAME_BYTES, size - offset))
                except OSError:
                    data = b""
                yield number, offset, data or None
                if not data:
                    break
                offset += len(data)
