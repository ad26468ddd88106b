"""The file of a Weights & Biases run, run-ID.wandb, while it grows: an offline run keeps everything in it.

Records of protocol buffers in the blocks of a LevelDB log; fragments of a record that crosses blocks follow each other.
Source: wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto, wandb 0.22, 2026-11.
"""

from __future__ import annotations

import struct

from sojourn.box.trackers import naming
from sojourn.wire import protobuf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List

_MAGIC, _HEAD_BYTES = b":W&B", 7
_BLOCK = 32 << 10
_PART_BYTES = 2 * _BLOCK  # read from the file per look
_RECORD_BYTES = 4 * _BLOCK  # a larger one is not a row of history
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _ITEM, _STEP = 2, 1, 2  # Record.history, HistoryRecord.item, HistoryRecord.step
_KEY, _NESTED, _JSON = 1, 2, 16  # HistoryItem


class Run:
    """One file."""

    kind = "wandb"

    def __init__(self) -> None:
        self.value: Dict[str, Any] = {}
        self._at = 0
        self._parts: List[bytes] | None = None  # of an incomplete record; None: its beginning is unknown

    def read(self, f: BinaryIO, size: int) -> None:
        """Take in what is new; if there is too much, its end. Raises: OSError."""
        if self._at == 0:
            if f.read(_HEAD_BYTES)[:4] != _MAGIC:
                return
            self._at = _HEAD_BYTES
        if size - self._at > _PART_BYTES:
            self._at, self._parts = (size - _PART_BYTES + _BLOCK - 1) // _BLOCK * _BLOCK, None
        f.seek(self._at)
        data = f.read(_PART_BYTES)
        at = 0
        while True:
            left = _BLOCK - (self._at + at) % _BLOCK
            if left < _HEAD_BYTES:
                at += left
                continue
            if at + _HEAD_BYTES > len(data):
                break
            length, kind = struct.unpack_from("<HB", data, at + 4)
            end = at + _HEAD_BYTES + length
            if length > left - _HEAD_BYTES or not _FULL <= kind <= _LAST:
                at, self._parts = at + left, None  # damaged: continue with the next block
                if at > len(data):
                    break
                continue
            if end > len(data):
                break
            self._take(kind, data[at + _HEAD_BYTES : end])
            at = end
        self._at += min(at, len(data))

    def _take(self, kind: int, data: bytes) -> None:
        if kind in (_FULL, _FIRST):
            self._parts = []
        if self._parts is None:
            return
        self._parts.append(data)
        if sum(map(len, self._parts)) > _RECORD_BYTES:
            self._parts = None
        elif kind in (_FULL, _LAST):
            record, self._parts = b"".join(self._parts), None
            try:
                self._row(record)
            except (ValueError, UnicodeDecodeError):
                return

    def _row(self, record: bytes) -> None:
        for number, kind, history in protobuf.fields(record):
            if number == _HISTORY and kind == 2 and isinstance(history, bytes):
                numbers = _numbers(history)
                found = naming.place(numbers, self.value.get("metrics"))
                if numbers:
                    self.value = dict(self.value, **found)


def _numbers(history: bytes) -> Dict[str, float]:
    """The numbers of one row, by name; `_step` is W&B's own row count."""
    numbers: Dict[str, float] = {}
    for number, kind, part in protobuf.fields(history):
        if not isinstance(part, bytes) or kind != 2:
            continue
        words, value = [], None  # type: List[str], float | None
        for inner, form, item in protobuf.fields(part):
            if number == _STEP and inner == 1 and isinstance(item, int):
                numbers["_step"] = item
            elif number == _ITEM and isinstance(item, bytes) and form == 2:
                if inner in (_KEY, _NESTED):
                    words.append(item.decode("utf-8"))
                elif inner == _JSON:
                    value = naming.number(item[:40].decode("utf-8", "replace"))
        if words and value is not None:
            numbers[".".join(words)] = value
    return numbers
