"""`call`: one request on standard input, one answer on standard output, both framed; then the process ends.

An answer is a J frame {"ok":true,...} or {"ok":false,"code","message"}, and then the B frames it brings. Every answer
has `now`, `boot_id` and `pid1_start` of the box.
"""

from __future__ import annotations

import importlib
import os
import sys
import time

from sojourn.box.probes import machine
from sojourn.wire import framing, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List

REQUEST_BYTES = 16 << 20
# op -> the file in `ops` that answers it
_OPS = {
    "hello": "hello",
    "have": "code",
    "unpack": "code",
    "place": "intent",
    "want": "intent",
    "stop": "intent",
    "since": "since",
    "manifest": "files",
    "read": "files",
    "roots": "roots",
    "forget_secrets": "forget",
    "usage": "clean",
    "remove": "clean",
}


class Refused(Exception):
    """The box says no: `code` is stable and greppable, `more` goes into the answer."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


class Box:
    """What an op needs to know beside its request: the base folder and the keeper file that speaks."""

    def __init__(self, base: str) -> None:
        self.keeper = os.path.abspath(sys.argv[0])
        own = os.path.dirname(os.path.dirname(self.keeper))
        self.base = os.path.abspath(os.path.expanduser(base)) if base else own
        self.blobs: List[bytes] = []  # the B frames of the answer

    def under(self, *parts: str) -> str:
        """A path below base."""
        return os.path.join(self.base, *parts)


def answer_one(source: BinaryIO, sink: BinaryIO) -> int:
    """Answer one request. Exit status 0 whenever an answer was written, whatever it says."""
    box = None
    try:
        kind, request = framing.read(source, REQUEST_BYTES)
        if kind != b"J" or not isinstance(request, dict):
            raise Refused("bad-request", "the request is no JSON object")
        box = Box(str(request.get("base") or ""))
        value = _answer(box, request)
        value.setdefault("ok", True)
    except Refused as no:
        value = dict(no.more, ok=False, code=no.code, message=str(no))
    except (EOFError, framing.Torn, KeyError, TypeError, ValueError) as error:
        value = {"ok": False, "code": "bad-request", "message": "%s: %s" % (type(error).__name__, error)}
    except OSError as error:
        value = {"ok": False, "code": "os-error", "message": str(error), "errno": error.errno}
    value.update(now=units.stamp(time.time()), boot_id=machine.boot_id(), pid1_start=machine.pid1_start())
    sink.write(framing.pack_json(value))
    if value["ok"] and box is not None:
        for blob in box.blobs:
            sink.write(framing.pack(blob))
    sink.flush()
    return 0


def _answer(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    op = str(request.get("op"))
    module = _OPS.get(op)
    if module is None:
        raise Refused("unknown-op", "this keeper knows no %r" % op, ops=sorted(_OPS))
    door = importlib.import_module("sojourn.box.ops." + module)
    answer: Dict[str, Any] = getattr(door, op)(box, request)
    return answer
