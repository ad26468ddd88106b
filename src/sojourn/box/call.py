"""`call`: one request on standard input, one answer on standard output, both framed; then the process ends.

An answer is a J frame {"ok":true,...} or {"ok":false,"code","message"}, followed by its B frames. Every answer has
`now`, `boot_id` and `pid1_start` of the box, and as `by` the answering Python, if it can be called again without a
search.

The request {"op":"batch","ops":[{"op":...},...]} combines several: they run in order up to the first that is refused.
Its answer's `answers` has one entry for each op tried, with the number of its B frames as `frames`. B frames after a
request are for its ops, which take them in order.

`send` and `receive` (never in a batch) also have a stream of contents, as described in `wire.pieces`.
"""

from __future__ import annotations

import os
import sys
import time

from sojourn.box.system import identity, machine
from sojourn.wire import framing, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable, Dict, Iterable, List, Tuple

REQUEST_BYTES = 16 << 20
# op -> the file in `ops` that answers it
_OPS = {
    "command": "begin",
    "proven": "begin",
    "hello": "hello",
    "have": "code",
    "unpack": "unpack",
    "place": "intent",
    "want": "intent",
    "left": "revise",
    "revise": "revise",
    "stop": "intent",
    "judge": "judge",
    "since": "since",
    "enqueue": "queue",
    "withdraw": "queue",
    "manifest": "files",
    "read": "files",
    "send": "send",
    "lacking": "receive",
    "receive": "receive",
    "roots": "roots",
    "survey": "survey",
    "forget_secrets": "forget",
    "usage": "clean",
    "remove": "clean",
    "bundle": "bundle",
    "look": "look",
    "reap": "reap",
    "stage": "stage",
}


class Refused(Exception):
    """The box says no: `code` is stable and greppable, `more` is added to the answer."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


class Box:
    """What an op needs to know beside its request: the base folder and the answering keeper file."""

    def __init__(self, base: str, source: BinaryIO) -> None:
        self.keeper = os.path.abspath(sys.argv[0])
        own = os.path.dirname(os.path.dirname(self.keeper))
        self.base = os.path.abspath(os.path.expanduser(base)) if base else own
        self.blobs: List[bytes] = []  # the B frames of the answer
        self.stream: Iterable[bytes] = ()  # frames that follow the answer, made while they are sent; not in a batch
        self._source = source

    def under(self, *parts: str) -> str:
        """A path below base."""
        return os.path.join(self.base, *parts)

    def next_frame(self) -> Tuple[bytes, Any]:
        """The next frame after the request. Raises: EOFError, Torn, ValueError."""
        return framing.read_frame(self._source, REQUEST_BYTES)

    def next_blob(self) -> bytes:
        """The next B frame after the request. Raises: EOFError, Torn, ValueError."""
        kind, data = self.next_frame()
        if kind != b"B":
            raise ValueError("a frame of bytes was to come")
        return bytes(data)


def answer_one(source: BinaryIO, sink: BinaryIO) -> int:
    """Answer one request. Exit status 0 whenever an answer was written, whatever its content."""
    blobs: List[bytes] = []
    streams: List[Iterable[bytes]] = []
    value = _said(_answer, source, blobs, streams)
    value.update(now=units.stamp(time.time()), boot_id=machine.boot_id(), pid1_start=machine.pid1_start())
    # A Python provided by a module may not even start without it.
    value["by"] = "" if os.environ.get("LOADEDMODULES") else sys.executable
    sink.write(framing.pack_json(value))
    for blob in blobs:
        sink.write(framing.pack(blob))
    for stream in streams:
        for part in stream:
            sink.write(part)
    sink.flush()
    return 0


def _answer(source: BinaryIO, blobs: List[bytes], streams: List[Iterable[bytes]]) -> Dict[str, Any]:
    kind, request = framing.read_frame(source, REQUEST_BYTES)
    if kind != b"J" or not isinstance(request, dict):
        raise Refused("bad-request", "the request is not a JSON object")
    box = Box(str(request.get("base") or ""), source)
    if request.get("op") == "batch":
        answer: Dict[str, Any] = {"answers": _answers(box, request["ops"])}
    else:
        answer = _one(box, request)
    if os.path.isdir(box.base):
        identity.register(box.base)
    blobs += box.blobs  # a refused answer has none
    streams.append(box.stream)
    return answer


def _answers(box: Box, requests: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """For every op up to and including the first that is refused: earlier ones were done."""
    answers: List[Dict[str, Any]] = []
    for request in requests:
        before = len(box.blobs)
        answer = _said(_one, box, request)
        if not answer["ok"]:
            del box.blobs[before:]
        answers.append(dict(answer, frames=len(box.blobs) - before))
        if not answer["ok"]:
            break
    return answers


def _one(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    if not isinstance(request, dict):
        raise Refused("bad-request", "an op is a JSON object")
    op = str(request.get("op"))
    module = _OPS.get(op)
    if module is None:
        raise Refused("unknown-op", "this keeper does not know %r" % op, ops=sorted(_OPS))
    door = __import__("sojourn.box.ops." + module, fromlist=[op])  # `importlib` would also import `warnings`
    answer: Dict[str, Any] = getattr(door, op)(box, request)
    return answer


def _said(act: Callable[..., Dict[str, Any]], *what: Any) -> Dict[str, Any]:
    """The answer of `act(*what)`, or its refusal."""
    try:
        return dict(act(*what), ok=True)
    except Refused as no:
        return dict(no.more, ok=False, code=no.code, message=str(no))
    except (EOFError, framing.Torn, KeyError, TypeError, ValueError) as error:
        return {"ok": False, "code": "bad-request", "message": "%s: %s" % (type(error).__name__, error)}
    except OSError as error:
        return {"ok": False, "code": "os-error", "message": str(error), "errno": error.errno}
