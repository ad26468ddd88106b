"""Write a PyTorch file: a stored zip, storages aligned, every piece with its CRC, small ones also with a sha256.

Below `archive/`, in this order: data.pkl, byteorder, version, data/0 ... data/n, .sojourn/sums.json. The last is
{"schema", "frame": 1, "facts", "arrays": {key: numpy's view}, "locations": {key: device}, "pieces": [[name, bytes,
sha256, or "" for a piece over 1 MiB, guarded by its CRC alone: a sha256 takes longer than a fast disk]]}; torch.load
requests only names it knows, so it never sees this. All sizes, and so all offsets, are known before the first byte is
written. Frame 1: entries follow each other without gaps, except zeros in a header's extra field "FB"; the writer
chooses the alignment.

There are two ways to write a `Plan`. `write_to(fd)` requests one storage at a time and makes no second copy of the
state. Or the pieces are copied into an image of the file, each to its offset (`places`), and another process, given
`outline()`, makes the same plan (`again`), lets `seal(image)` fill in what surrounds the pieces, and writes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Mapping, Sequence

from sojourn.formats.crc import crc32
from sojourn.formats.torch import pickle as torch_pickle
from sojourn.formats.torch.entries import BIG, CENTRAL, END, END64, FIND64, LOCAL, Entry
from sojourn.formats.torch.values import Storage

SCHEMA = "sojourn/checkpoint/v1"
SUMS = ".sojourn/sums.json"
FRAME = 1
ALIGN = 64
_FOLDER = "archive/"
_CHUNK = 1 << 20
_SPAN = 16 << 20  # written at once
_HASHERS = 2
_UTF8 = 0x800
_DATE = 0x21  # 1980-01-01: the same state gives the same bytes


class Plan:
    """A file laid out but not yet written. `bytes`: its exact size. `sums_sha256` after writing: the content's id."""

    def __init__(
        self, pieces: Sequence[tuple[str, int, Callable[[], memoryview]]], document: Mapping[str, Any]
    ) -> None:
        self._pieces = list(pieces)
        self._document = dict(document)
        blank = [[_FOLDER + name, size, "" if size > _CHUNK else "0" * 64] for name, size, _ in self._pieces]
        self._sums_bytes = len(self._sums(blank))
        self.sums_sha256 = ""
        self._outline = b""
        self.entries: list[Entry] = []
        at = 0
        for name, size in [(name, size) for name, size, _ in self._pieces] + [(SUMS, self._sums_bytes)]:
            head = len(_local(_FOLDER + name, size, 0, 0))
            pad = -(at + head) % ALIGN
            pad += ALIGN if 0 < pad < 4 else 0
            self.entries.append(Entry(_FOLDER + name, at, at + head + pad, size, size, 0, 0))
            at += head + pad + size
        self.bytes = at + len(_directory(self.entries, at))

    def write_to(self, fd: int) -> None:
        """Write the whole file to `fd` from its start, one storage at a time. Not fsynced.   Raises: OSError."""
        out = _Out(fd)
        rows: list[list[Any]] = []
        done: list[Entry] = []
        for entry, (_, size, view) in zip(self.entries, self._pieces):
            data = view()
            if len(data) != size:
                raise ValueError(f"{entry.name} changed its size from {size} to {len(data)} bytes while it was saved")
            crc, sha = out.piece(entry, data)
            rows.append([entry.name, size, sha])
            done.append(entry_with(entry, crc))
        sums = self._sums(rows)
        last = self.entries[-1]
        crc, self.sums_sha256 = out.piece(last, memoryview(sums))
        done.append(entry_with(last, crc))
        out.add(_directory(done, last.offset + last.bytes))
        out.flush()
        self.entries = done

    def places(self) -> Iterator[tuple[int, int, Callable[[], memoryview]]]:
        """(offset in the file, bytes, view) of every piece but the sums, in file order."""
        for entry, (_, size, view) in zip(self.entries, self._pieces):
            yield entry.offset, size, view

    def outline(self) -> bytes:
        """JSON from which `again` can rebuild this plan."""
        if not self._outline:
            pieces = [[name, size] for name, size, _ in self._pieces]
            text = json.dumps({"pieces": pieces, "document": self._document}, allow_nan=False)
            self._outline = text.encode("ascii")
        return self._outline

    def seal(self, image: memoryview, placed: Callable[[int, int], None]) -> None:
        """Add headers, sums and directory around the pieces, which are already at their `places` in `image`.

        `placed(start, stop)` is called, with growing numbers, after each finished span. Two threads hash large pieces:
        it is faster, and a training that computes on every core waits for the slowest.
        """
        rows: list[list[Any]] = []
        done: list[Entry] = []

        def crc_of(entry: Entry) -> int:
            return crc32(image[entry.offset : entry.offset + entry.bytes])

        with ThreadPoolExecutor(_HASHERS) as pool:
            crcs = {entry.header: pool.submit(crc_of, entry) for entry in self.entries[:-1] if entry.bytes > _CHUNK}
            for entry in self.entries[:-1]:
                crc = crcs[entry.header].result() if entry.header in crcs else crc_of(entry)
                data = image[entry.offset : entry.offset + entry.bytes]
                sha = hashlib.sha256(data).hexdigest() if len(data) <= _CHUNK else ""
                pad = entry.offset - entry.header - len(_local(entry.name, entry.bytes, 0, 0))
                image[entry.header : entry.offset] = _local(entry.name, entry.bytes, crc, pad)
                rows.append([entry.name, entry.bytes, sha])
                done.append(entry_with(entry, crc))
                placed(entry.header, entry.offset)
        sums, last = self._sums(rows), self.entries[-1]
        crc, self.sums_sha256 = crc32(sums), hashlib.sha256(sums).hexdigest()
        pad = last.offset - last.header - len(_local(last.name, last.bytes, 0, 0))
        done.append(entry_with(last, crc))
        tail = _local(last.name, last.bytes, crc, pad) + sums + _directory(done, last.offset + last.bytes)
        image[last.header : self.bytes] = tail
        self.entries = done
        placed(last.header, self.bytes)

    def _sums(self, rows: list[list[Any]]) -> bytes:
        document = dict(self._document, pieces=rows)
        return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False).encode("ascii")


def plan(tree: Any, facts: Mapping[str, Any]) -> Plan:
    """Lay out a file with `tree` (see `torch_zip`) and its `facts` (plain JSON).

    Nothing is copied: storages supply their bytes when written.   Raises: torch_pickle.Unsaveable, ValueError (facts).
    """
    pickled, storages = torch_pickle.dumps(tree)
    pieces: list[tuple[str, int, Callable[[], memoryview]]] = [
        ("data.pkl", len(pickled), lambda: memoryview(pickled)),
        ("byteorder", len(sys.byteorder), lambda: memoryview(sys.byteorder.encode("ascii"))),
        ("version", 2, lambda: memoryview(b"3\n")),
    ]
    pieces += [(f"data/{key}", storage.bytes, storage.view) for key, storage in enumerate(storages)]
    document = {
        "schema": SCHEMA,
        "frame": FRAME,
        "facts": dict(facts),
        "arrays": {str(key): dict(s.array) for key, s in enumerate(storages) if s.array is not None},
        "locations": {str(key): s.location for key, s in enumerate(storages) if s.location != "cpu"},
    }
    return Plan(pieces, document)


def again(outline: bytes) -> Plan:
    """The plan that returned this `outline`, without its state: only to `seal` an image.   Raises: ValueError."""
    said = json.loads(outline.decode("ascii"))
    return Plan([(name, size, lambda: memoryview(b"")) for name, size in said["pieces"]], said["document"])


def frame_problems(data: memoryview, entries: Sequence[Entry]) -> list[str]:
    """Whatever lies between the pieces of a frame 1 file and differs from what `Plan` writes: it is rebuilt from the
    entries and compared.
    """
    at = 0
    for entry in entries:
        if entry.header != at or entry.method or entry.packed != entry.bytes:
            return [f"{entry.name} does not lie where it was written"]
        pad = entry.offset - at - len(_local(entry.name, entry.bytes, 0, 0))
        if (
            pad < 0
            or 0 < pad < 4
            or bytes(data[at : entry.offset]) != _local(entry.name, entry.bytes, entry.crc32, pad)
        ):
            return [f"the header of {entry.name} is damaged"]
        at = entry.offset + entry.bytes
    return [] if bytes(data[at:]) == _directory(entries, at) else ["its directory is damaged"]


def entry_with(entry: Entry, crc32: int) -> Entry:
    """The same entry with its CRC filled in."""
    return Entry(entry.name, entry.header, entry.offset, entry.bytes, entry.packed, entry.method, crc32)


class _Out:
    """Appends to a descriptor; gathers small pieces so that a thousand small tensors do not cost a thousand writes."""

    def __init__(self, fd: int) -> None:
        self.fd, self.pending = fd, bytearray()

    def add(self, data: bytes | memoryview) -> None:
        self.pending += data
        if len(self.pending) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        _write(self.fd, memoryview(self.pending))
        self.pending = bytearray()

    def piece(self, entry: Entry, data: memoryview) -> tuple[int, str]:
        """Append header and bytes of one entry; (CRC, sha256 or "") of the bytes."""
        pad = entry.offset - entry.header - len(_local(entry.name, entry.bytes, 0, 0))
        if len(data) <= _CHUNK or entry.name == _FOLDER + SUMS:
            crc = crc32(data)
            self.add(_local(entry.name, entry.bytes, crc, pad))
            self.add(data)
            return crc, hashlib.sha256(data).hexdigest()
        self.add(_local(entry.name, entry.bytes, 0, pad))
        self.flush()
        crc_of = _beside(lambda: crc32(data))
        for at in range(0, len(data), _SPAN):
            _write(self.fd, data[at : at + _SPAN])
        crc = crc_of()
        os.pwrite(self.fd, _local(entry.name, entry.bytes, crc, pad), entry.header)
        return crc, ""


def _beside(work: Callable[[], int]) -> Callable[[], int]:
    """Start `work`, which does not raise, in a thread if there is one to be had; a call waits for what it returns."""
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return work

    def wait() -> int:
        thread.join()
        return done[0] if done else work()

    return wait


def _write(fd: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(fd, data) :]


def _local(name: str, size: int, crc: int, pad: int) -> bytes:
    """A local header whose extra field ends with `pad` bytes (0, or at least 4) of padding."""
    raw, wide = name.encode("utf-8"), b""
    if size >= BIG:
        wide, size = struct.pack("<2H2Q", 1, 16, size, size), BIG
    extra = wide + (struct.pack("<2sH", b"FB", pad - 4) + bytes(pad - 4) if pad else b"")
    need = 45 if wide else 20
    return LOCAL.pack(b"PK\x03\x04", need, _UTF8, 0, 0, _DATE, crc, size, size, len(raw), len(extra)) + raw + extra


def _directory(entries: Sequence[Entry], at: int) -> bytes:
    """Central directory and end records for offset `at`."""
    rows = []
    for e in entries:
        raw = e.name.encode("utf-8")
        size, header = min(e.bytes, BIG), min(e.header, BIG)
        wide = struct.pack("<2Q", e.bytes, e.bytes) if size == BIG else b""
        wide += struct.pack("<Q", e.header) if header == BIG else b""
        extra = struct.pack("<2H", 1, len(wide)) + wide if wide else b""
        need = 45 if extra else 20
        head = (
            b"PK\x01\x02",
            need,
            need,
            _UTF8,
            0,
            0,
            _DATE,
            e.crc32,
            size,
            size,
            len(raw),
            len(extra),
            0,
            0,
            0,
            0,
            header,
        )
        rows.append(CENTRAL.pack(*head) + raw + extra)
    table = b"".join(rows)
    count = len(rows)
    end64 = END64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(table), at)
    find64 = FIND64.pack(b"PK\x06\x07", 0, at + len(table), 1)
    short = min(count, 0xFFFF)
    end = END.pack(b"PK\x05\x06", 0, 0, short, short, min(len(table), BIG), min(at, BIG), 0)
    return table + end64 + find64 + end


__all__ = ["ALIGN", "FRAME", "SCHEMA", "SUMS", "Plan", "Storage", "again", "frame_problems", "plan"]
