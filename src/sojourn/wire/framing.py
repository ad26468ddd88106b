"""Length-framed messages on a byte stream that may also carry chatter (a login message, a .bashrc that prints).

A frame is MAGIC, kind (1 byte: J = JSON, B = bytes), length (8 bytes, big-endian), crc32 of kind, length and
payload (4 bytes), payload.
"""

from __future__ import annotations

import zlib

from sojourn.wire import lean_json

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Iterator, List, Tuple

MAGIC = b"\x00SJ1"
HEAD_BYTES = len(MAGIC) + 1 + 8 + 4
_KINDS = (b"J", b"B")
# Lists, objects and members in one JSON frame. In memory each takes many times its size on the line; ours have fewer.
_PARTS = 8_000_000
_HEAD_KEPT_BYTES = 64 << 10


class Torn(ValueError):
    """The stream ended inside a frame, or a frame's bytes do not match its checksum."""


def pack(payload: bytes, kind: bytes = b"B") -> bytes:
    """One frame. `kind` is b"J" or b"B"."""
    return b"".join((MAGIC, kind, len(payload).to_bytes(8, "big"), _sum(kind, payload).to_bytes(4, "big"), payload))


def pack_json(value: Any) -> bytes:
    """One JSON frame. A file name that is not UTF-8 (surrogates) survives both ways.

    Raises: TypeError, ValueError.
    """
    text = lean_json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return pack(text.encode("utf-8", "surrogatepass"), b"J")


def frames(data: bytes) -> Iterator[Tuple[bytes, Any]]:
    """(kind, value) of every frame in `data`, in order; chatter before and between frames is skipped. Raises: Torn."""
    at = 0
    while True:
        at = data.find(MAGIC, at)
        if at < 0:
            return
        if len(data) < at + HEAD_BYTES:
            raise Torn("the answer ends inside a frame's head")
        kind, length, crc = _head(data, at + len(MAGIC))
        start = at + HEAD_BYTES
        payload = data[start : start + length]
        if len(payload) < length:
            raise Torn("the answer ends after %d of %d bytes" % (len(payload), length))
        yield kind, _value(kind, payload, crc)
        at = start + length


class Incoming:
    """Frames of a stream that arrives in pieces. `head`: the first bytes, for messages; chatter is skipped only before
    the first frame.
    """

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes`: the most that one frame may contain."""
        self.head = b""
        self._limit_bytes = limit_bytes
        self._held = bytearray()
        self._has_begun = False

    def feed(self, data: bytes) -> List[Tuple[bytes, Any]]:
        """(kind, value) of every complete frame. Raises: Torn, also if a frame is over the limit."""
        if len(self.head) < _HEAD_KEPT_BYTES:
            self.head += data[: _HEAD_KEPT_BYTES - len(self.head)]
        self._held += data
        found: List[Tuple[bytes, Any]] = []
        at = 0
        while True:
            if not self._has_begun:
                at = self._held.find(MAGIC, at)
                if at < 0:
                    del self._held[: -len(MAGIC)]
                    return found
            if len(self._held) - at < HEAD_BYTES:
                break
            if not self._held.startswith(MAGIC, at):
                raise Torn("not a frame: %r" % bytes(self._held[at : at + 16]))
            kind, length, crc = _head(bytes(self._held[at : at + HEAD_BYTES]), len(MAGIC))
            if length > self._limit_bytes:
                raise Torn("a frame of %d bytes is over the limit of %d" % (length, self._limit_bytes))
            if len(self._held) - at - HEAD_BYTES < length:
                break
            found.append((kind, _value(kind, bytes(self._held[at + HEAD_BYTES : at + HEAD_BYTES + length]), crc)))
            self._has_begun = True
            at += HEAD_BYTES + length
        del self._held[:at]
        return found


def chatter(data: bytes) -> bytes:
    """The bytes before the first frame: evidence if no frame comes."""
    at = data.find(MAGIC)
    return data if at < 0 else data[:at]


def read_frame(stream: BinaryIO, limit_bytes: int) -> Tuple[bytes, Any]:
    """The next frame of a clean stream (our own stdin).

    Raises: EOFError at its end, Torn, ValueError over `limit_bytes`.
    """
    head = _read_exactly(stream, HEAD_BYTES)
    if not head:
        raise EOFError
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        raise Torn("not a frame: %r" % head[:16])
    kind, length, crc = _head(head, len(MAGIC))
    if length > limit_bytes:
        raise ValueError("a frame of %d bytes is over the limit of %d" % (length, limit_bytes))
    payload = _read_exactly(stream, length)
    if len(payload) < length:
        raise Torn("the stream ends after %d of %d bytes" % (len(payload), length))
    return kind, _value(kind, payload, crc)


def _head(data: bytes, at: int) -> Tuple[bytes, int, int]:
    """Kind, length and checksum of the frame whose magic ends at `at`."""
    number = int.from_bytes
    return data[at : at + 1], number(data[at + 1 : at + 9], "big"), number(data[at + 9 : at + 13], "big")


def _sum(kind: bytes, payload: bytes) -> int:
    """Includes the kind: one flipped bit turns B into J."""
    return zlib.crc32(payload, zlib.crc32(kind + len(payload).to_bytes(8, "big")))


def _value(kind: bytes, payload: bytes, crc: int) -> Any:
    if kind not in _KINDS or _sum(kind, payload) != crc:
        raise Torn("a frame is damaged")
    if kind == b"B":
        return payload
    if len(payload) > _PARTS and sum(map(payload.count, (b",", b"[", b"{"))) > _PARTS:
        raise Torn("a frame is larger than any valid one")
    try:
        return lean_json.loads(payload.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Torn("a frame is not JSON: %s" % error) from error


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(min(count, 1 << 20))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
