"""TensorBoard event files while they grow: the last value of each scalar, and the largest step.

Checksums are left to the verification at home; anything but an event is skipped.
"""

from __future__ import annotations

import re
import struct

from sojourn.box.trackers import naming
from sojourn.wire import tensorboard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict

_PART_BYTES = 64 << 10  # read from the file per look
_EVENT_BYTES = 16 << 10  # larger ones contain images, graphs and histograms
_HOPS = 64  # over large events, per look
_SANE_BYTES = 1 << 31
# The head of an event that is not large: its length, a checksum, and the wall time that starts every event.
_HEAD = re.compile(rb"(?=..\0{6}....\x09)", re.DOTALL)


class Events:
    """One file."""

    kind = "tensorboard"

    def __init__(self) -> None:
        self.value: Dict[str, Any] = {}
        self._at = 0  # of the next record
        self._step = 0
        self._new: Dict[str, float] = {}  # what this look found

    def read(self, f: BinaryIO, size: int) -> None:
        """Take in what is new; if there is too much, its end. Raises: OSError."""
        left, hops = _PART_BYTES, _HOPS
        while left > 0 and hops > 0:
            f.seek(self._at)
            done = self._walk(f.read(left), size)
            if not done:
                break
            left -= min(done, left)
            hops -= 1
        if size - self._at > _PART_BYTES:
            self._jump(f, size)
            self._walk(f.read(_PART_BYTES), size)
        known = {tag: float("%.7g" % value) for tag, value in self._new.items() if naming.number(value) is not None}
        self._new = {}
        if known:
            found = naming.place(known, self.value.get("metrics"))
            self.value = dict(self.value, **dict(found, step=self._step))

    def _walk(self, data: bytes, size: int) -> int:
        """Take in the whole records; returns the bytes passed, maybe more than exist if a large one is skipped."""
        at = 0
        while at + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            end = at + 16 + length
            if length > _SANE_BYTES:
                at = max(0, size - self._at)  # not the start of a record: continue with what comes next
                break
            if self._at + end > size or (end > len(data) and length <= _EVENT_BYTES):
                break
            if length <= _EVENT_BYTES:
                self._take(data[at + 12 : end - 4])
            at = end
        self._at += at
        return at

    def _jump(self, f: BinaryIO, size: int) -> None:
        """To the first record that starts in the last part of the file: one that others follow without a gap."""
        start = max(0, size - _PART_BYTES)
        f.seek(start)
        data = f.read(_PART_BYTES)
        for hit in _HEAD.finditer(data):
            if _is_chain(data, hit.start()):
                self._at = start + hit.start()
                break
        else:
            self._at = size
        f.seek(self._at)

    def _take(self, data: bytes) -> None:
        try:
            step, pairs = tensorboard.scalars(data)
        except (ValueError, struct.error, UnicodeDecodeError):
            return
        if len(pairs) > 1:
            tags = [tag for tag, _ in pairs]
            pairs = [pair for pair in pairs if tags.count(pair[0]) == 1]  # a curve or an image as a tensor
        self._new.update(pairs)
        if pairs:
            self._step = max(step, self._step)


def _is_chain(data: bytes, at: int) -> bool:
    """Whether records follow each other from here to the end of the data, or at least three do."""
    for _ in range(3):
        if not _HEAD.match(data, at):
            return False
        at += 16 + int(struct.unpack_from("<H", data, at)[0])
        if at + 13 > len(data):
            return True
    return True
