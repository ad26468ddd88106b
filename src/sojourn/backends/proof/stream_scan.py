"""Scans every value that tensors view while the bytes of their storages pass by, once and in order.

Bytes that several tensors view are scanned once, under the first name; bytes that no tensor views belong to nobody and
may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sojourn.formats.crc import crc32
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch.values import DTYPES, Storage, Tensor

if TYPE_CHECKING:
    from sojourn.backends.proof import content

_EXACT_BYTES = 256 << 20


class _Stretch:
    """Bytes of a storage viewed by overlapping tensors of one dtype."""

    def __init__(self, begin: int, end: int, name: str, members: list[Tensor]) -> None:
        self.begin, self.end, self.name, self.members = begin, end, name, members
        self._feed: content.Feed | None = None
        self.scan: content.Scan | None = None

    def take(self, at: int, piece: memoryview) -> bool:
        """Take the part of `piece`, at byte `at` of the storage, that belongs here; returns whether that is its end."""
        from sojourn.backends.proof import content

        if self._feed is None:
            self._feed = content.Feed(content.Scan(self.members[0].dtype))
        self._feed.take(piece[max(self.begin - at, 0) : self.end - at])
        if self.end > at + len(piece):
            return False
        self.scan, self._feed = self._feed.end(), None
        return True


class Passing:
    """The tensors of one file. `see` every storage, in order; then `settled`. A storage may also never come."""

    def __init__(
        self, tensors: Iterable[tuple[str, Tensor]], key_of: Callable[[Storage], str] = lambda storage: storage.key
    ) -> None:
        self.storages: dict[str, Storage] = {}
        self.names: dict[str, str] = {}  # for each storage: the first tensor in it
        self._every: list[_Stretch] = []
        rows: dict[tuple[str, str], list[tuple[int, int, str, Tensor]]] = {}
        for name, tensor in tensors:
            if tensor.elements:
                width = DTYPES[tensor.dtype][0]
                end = tensor.offset + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
                key = key_of(tensor.storage)
                self.storages[key] = tensor.storage
                self.names.setdefault(key, name)
                group = rows.setdefault((key, tensor.dtype), [])
                group.append((tensor.offset * width, end * width, name, tensor))
        self._waiting: dict[str, list[list[_Stretch]]] = {}  # for each storage and dtype, last first
        for (key, _), group in rows.items():
            stretches = _stretches(group)
            self._every += stretches
            self._waiting.setdefault(key, []).append(stretches[::-1])

    def see(self, key: str, at: int, piece: memoryview) -> None:
        """The next bytes of the storage `key`, at its byte `at`."""
        for waiting in self._waiting.get(key, ()):
            while waiting and waiting[-1].begin < at + len(piece) and waiting[-1].take(at, piece):
                waiting.pop()

    def settled(self) -> content.Content:
        """The content of all of them. Raises: ValueError if one was not seen to its end."""
        from sojourn.backends.proof import content

        found = content.Content()
        for stretch in self._every:
            if stretch.scan is None:
                raise ValueError(f"the bytes of {stretch.name} never came")
            seen = stretch.scan
            if (seen.nan or seen.infinite) and not all(_is_dense(t) for t in stretch.members):
                seen = _exact(stretch.members, seen)
            is_number = len(self._every) > 1 and all(t.elements == 1 for t in stretch.members)
            found.add(stretch.name or "the tensor", seen, is_number=is_number)
        return found


def scan(tensors: Iterable[tuple[str, Tensor]], read: torch_entries.Read) -> content.Content:
    """The same for tensors whose storages know their offset in the file read by `read`; checksums are compared.

    Raises: Unloadable("corrupt"), and what `read` raises.
    """
    passing = Passing(tensors, lambda storage: str(id(storage)))  # of several archives, whose keys are the same
    for key, storage in sorted(passing.storages.items(), key=lambda item: item[1].begin):
        at = crc = 0
        for piece in read(storage.begin, storage.bytes):
            if storage.crc32 is not None:
                crc = crc32(piece, crc)
            passing.see(key, at, piece)
            at += len(piece)
        if storage.crc32 not in (None, crc):
            raise Unloadable("corrupt", f"{passing.names[key][:80]} is damaged (CRC)")
    return passing.settled()


def _stretches(rows: list[tuple[int, int, str, Tensor]]) -> list[_Stretch]:
    """(begin, end, name, tensor) of the tensors of one storage and dtype, overlapping ones as one, in order."""
    rows.sort(key=lambda row: (row[0], row[1]))
    out: list[_Stretch] = []
    for begin, end, name, tensor in rows:
        if out and begin < out[-1].end:
            out[-1].end = max(out[-1].end, end)
            out[-1].members.append(tensor)
        else:
            out.append(_Stretch(begin, end, name, [tensor]))
    return out


def _is_dense(tensor: Tensor) -> bool:
    """It views every element between its first and its last."""
    want = 1
    for stride, size in sorted(zip(tensor.stride, tensor.shape, strict=True)):
        if size > 1 and stride > want:
            return False
        want = max(want, stride * size)
    return True


def _exact(members: list[Tensor], rough: content.Scan) -> content.Scan:
    """A scan of only what the tensors view; bytes in between (another tensor's, or nobody's) do not count."""
    import numpy as np

    from sojourn.backends.proof import content

    storage = members[0].storage
    if storage.bytes > _EXACT_BYTES and not storage.is_mapped:
        return rough
    view, seen = storage.view(), rough
    for tensor in members:
        width = DTYPES[tensor.dtype][0]
        if tensor.elements * width > _EXACT_BYTES:
            return rough
        flat: Any = np.frombuffer(view, dtype=f"V{width}", offset=tensor.offset * width)
        strides = [stride * width for stride in tensor.stride]
        shown = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        seen = content.scan(tensor.dtype, [np.ascontiguousarray(shown).tobytes()])
        if seen.nan or seen.infinite:
            break
    return seen
