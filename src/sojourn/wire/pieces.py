"""Many contents in one stream of frames, in either direction: to a box, or home from one.

A J frame {"at": [[number, offset, length], ...]} describes the B frame after it, part by part: `length` bytes of the
content `number` from `offset` on. A length of -1 has no bytes: that content is complete. The last frame is {"end":
true}; a stream without it was cut. What arrived by then is valid, and the next stream continues there.
"""

from __future__ import annotations

from sojourn.wire import framing

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, List, Optional, Tuple

    Part = Tuple[int, int, Optional[bytes]]  # number, offset, bytes; None: that content is complete

# Size of a B frame: a cut loses at most one, plus what is in transit.
FRAME_BYTES = 256 << 10
NO_MORE = -1
_MOST_PARTS = 4096  # in one frame, of empty contents


def packed(parts: Iterable[Part]) -> Iterator[bytes]:
    """The stream, in pieces to write unchanged. A part may be as long as FRAME_BYTES."""
    at: List[List[int]] = []
    data: List[bytes] = []
    size = 0
    for number, offset, part in parts:
        count = NO_MORE if part is None else len(part)
        if at and (size + max(count, 0) > FRAME_BYTES or len(at) >= _MOST_PARTS):
            yield _frames(at, data)
            at, data, size = [], [], 0
        at.append([number, offset, count])
        if part:
            data.append(part)
            size += count
    if at:
        yield _frames(at, data)
    yield framing.pack_json({"end": True})


def _frames(at: List[List[int]], data: List[bytes]) -> bytes:
    return framing.pack_json({"at": at}) + framing.pack(b"".join(data))


class Reading:
    """The receiving end: frames in, parts out. `is_over`: the end frame has arrived."""

    def __init__(self) -> None:
        self.is_over = False
        self._at: Optional[List[Any]] = None

    def take(self, kind: bytes, value: Any) -> List[Part]:
        """The parts that this frame completes. Raises: Torn if it does not fit such a stream."""
        if self.is_over:
            raise framing.Torn("there is more after the end")
        if kind == b"B" and self._at is not None:
            at, self._at = self._at, None
            return _cut(at, value)
        if kind == b"J" and self._at is None and isinstance(value, dict):
            if value.get("end") is True:
                self.is_over = True
                return []
            if isinstance(value.get("at"), list):
                self._at = value["at"]
                return []
        raise framing.Torn("no frame of contents")


def _cut(at: List[Any], data: bytes) -> List[Part]:
    parts: List[Part] = []
    begin = 0
    for row in at:
        if not isinstance(row, list) or len(row) != 3 or not all(type(one) is int for one in row):
            raise framing.Torn("a part is number, offset and length")
        number, offset, count = row
        if number < 0 or offset < 0 or count < NO_MORE:
            raise framing.Torn("a part cannot be there")
        if count == NO_MORE:
            parts.append((number, offset, None))
            continue
        parts.append((number, offset, data[begin : begin + count]))
        begin += count
    if begin != len(data):
        raise framing.Torn("a frame holds %d bytes and tells of %d" % (len(data), begin))
    return parts
