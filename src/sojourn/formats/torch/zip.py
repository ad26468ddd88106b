"""PyTorch files without PyTorch: list, check, read, write. Standard library only, and nothing in a file is ever run.

    walk(path, crc=True) -> Structure    any zip that torch.save or torch.jit.save wrote: its entries, its tensors and
                                         everything wrong with it; raises only OSError
    read(path, check=True) -> Opened     the tree of one that torch.load(weights_only=True) would read; raises Damaged
    is_ours(path) -> bool                sojourn.train wrote it: the sums of its pieces lie inside
    facts(path) -> Mapping               what such a file says of itself: token, step, epoch, metrics, best, at

Writing: `torch_write.plan(tree, facts).write_to(fd)`.

A tree consists of None, bool, int, float, complex, str, bytes, list, tuple, set, dict, OrderedDict, Counter, `Tensor`
(whose storage gives a memoryview; the caller makes an array of it), `Name` (a dtype: "torch.float32") and `Made`
(torch.device). All results of `read_zip` view one private map of the file, which lives as long as any of them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Mapping, Tuple

from sojourn.formats.crc import crc32
from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch import fetched
from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch.entries import Entry
from sojourn.formats.torch.values import DTYPES, Damaged, Made, Name, Storage, Tensor, tensors

SUMS = torch_write.SUMS
SCHEMA = torch_write.SCHEMA
LIMIT_PICKLE_BYTES = 1 << 30
_LIMIT_SMALL_BYTES = 64 << 20
_RELEASE_BYTES = 64 << 20  # of a mapped file kept in memory while it is read
_CHECKERS = 2  # threads that check entries; one is slower than a fast disk, or than new memory
See = Callable[[str, int, memoryview], None]
Watch = Callable[[Tuple[Tuple[str, Tensor], ...]], See]
Verdict = Tuple[List[str], List[str]]
Loads = Callable[[bytes, Callable[[str, str, int], Storage]], torch_unpickle.Pickled]


@dataclass(frozen=True)
class Structure:
    """The contents of a PyTorch file, and `problems`: (word of the `verify` document, description) of each.

    entries: in the directory's order. tensors: (path in the tree, Tensor) in the tree's order. globals: every global
    the pickle names; `unsafe`: those weights_only refuses. facts: what sojourn wrote beside the tensors ({} unless
    `ours`). tree: the pickle's result (None if broken). `proved` says what was actually checked: "bytes" (every CRC,
    and every sha256 if `ours`), "structure" (pickle and views).
    """

    path: str
    bytes: int
    ours: bool
    entries: tuple[Entry, ...] = ()
    tensors: tuple[tuple[str, Tensor], ...] = ()
    globals: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()
    facts: Mapping[str, Any] | None = None
    problems: tuple[tuple[str, str], ...] = ()
    proved: tuple[str, ...] = ()
    tree: Any = None
    classes: tuple[str, ...] = ()  # named in the pickle, but not built
    remarks: tuple[str, ...] = ()  # from the pickle's decoder


@dataclass(frozen=True)
class Opened:
    """A file after reading: its `tree`, the `facts` sojourn wrote (or {}), its size."""

    path: str
    bytes: int
    tree: Any
    facts: Mapping[str, Any]


def walk(
    path: str,
    crc: bool = True,
    watch: Watch | None = None,
    read: torch_entries.Read | None = None,
    loads: Loads = torch_unpickle.loads,
) -> Structure:
    """List any PyTorch zip and report everything wrong with it; with `crc` every byte is read.

    `watch` gets the tensors of a sound pickle; what it returns gets every storage as it is read, in the same pass: (the
    storage's key, offset in it, a piece of its bytes). `read`: an alternative to a map of the file. `loads`: another
    decoder of the pickle, which may refuse less than PyTorch.
    Raises: OSError, and what `read` raises.
    """
    data = _map(path)
    if read:
        torch_entries.sparse(data)
    try:
        found = _Archive(path, data, read)
    except Damaged as e:
        return Structure(path, len(data), False, problems=((e.problem, e.fields["detail"]),))
    problems: list[tuple[str, str]] = []
    table: tuple[tuple[str, Tensor], ...] = ()
    names: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()
    pickled: torch_unpickle.Pickled | None = None
    try:
        pickled = found.pickled(loads)
        table = (*tensors(pickled.tree), *tensors(pickled.beside, "state"))
        names, unsafe = tuple(sorted(pickled.globals)), tuple(pickled.unsafe)
        problems += [("corrupt", f"{name}: {t.problem()}") for name, t in table if t.problem()]
        if unsafe:
            problems.append(("unsafe", "loading it would run {}".format(", ".join(unsafe))))
    except Damaged as e:
        problems.append((e.problem, e.fields["detail"]))
    is_sound = not problems
    see = watch(table) if watch and is_sound else None
    damaged = [("corrupt", text) for text in found.damages(crc, see)] if crc or see else []
    proved = (["bytes"] if crc and not damaged else []) + (["structure"] if is_sound and not damaged else [])
    return Structure(
        path,
        len(data),
        found.ours,
        tuple(found.entries),
        table,
        names,
        unsafe,
        found.facts,
        tuple(damaged + problems),
        tuple(proved),
        pickled and pickled.tree,
        tuple(pickled.classes) if pickled else (),
        pickled.remarks if pickled else (),
    )


def read_zip(path: str, check: bool = True) -> Opened:
    """Read the whole tree. With `check` every byte is compared with its CRC, and its sha256 if sojourn wrote the file.

    Raises: Damaged (also "unsafe": weights_only would refuse it), OSError.
    """
    data = _map(path)
    found = _looked_at(path, data)
    if check:
        with fetched.Fetched(path, data) as whole:
            found.read = whole.read
            damages = found.damages(keep=True)
        for text in damages:
            raise Damaged(path, "corrupt", text)
    pickled = found.pickled()
    if pickled.unsafe:
        raise Damaged(path, "unsafe", "loading it would run {}".format(", ".join(pickled.unsafe)))
    for name, tensor in tensors(pickled.tree):
        if tensor.problem():
            raise Damaged(path, "corrupt", f"{name}: {tensor.problem()}")
    return Opened(path, len(data), pickled.tree, found.facts)


def is_ours(path: str) -> bool:
    """True if `path` is a whole zip by sojourn.train. Cheap: reads only its end and its sums. Raises: OSError."""
    try:
        return _looked_at(path, _map(path)).ours
    except Damaged:
        return False


def facts(path: str) -> Mapping[str, Any]:
    """What sojourn wrote beside the tensors; {} if another program wrote the file. Raises: Damaged, OSError."""
    return _looked_at(path, _map(path)).facts


def _looked_at(path: str, data: memoryview) -> _Archive:
    """The archive mapped by `data`, in which an unreadable part is an error.   Raises: Damaged, OSError."""
    with open(path, "rb", buffering=0) as f:
        look = functools.partial(fetched.look, f.fileno(), path)
        if torch_entries.is_spread(data, path, look):
            torch_entries.sparse(data)  # else the system reads up to megabytes around each header, one by one
        found = _Archive(path, data, look=look)
    torch_entries.dense(data)
    return found


def _map(path: str) -> memoryview:
    """The file's bytes, private and copy-on-write, so that views of them are writable."""
    with open(path, "rb") as f:
        f.seek(0, 2)
        if not f.tell():
            return memoryview(b"")
        return memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))


class _Archive:
    """An open PyTorch zip: its entries by name below the archive's own folder. Raises Damaged for other files."""

    def __init__(
        self,
        path: str,
        data: memoryview,
        read: torch_entries.Read | None = None,
        look: torch_entries.Look | None = None,
    ) -> None:
        self.path, self.data, self.read = path, data, read
        self.entries = torch_entries.entries(data, path, look=look)
        self.prefix = self.entries[0].name.partition("/")[0] + "/" if self.entries else ""
        self.by_name: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.name in self.by_name:
                raise Damaged(path, "corrupt", f"{entry.name} occurs twice")
            self.by_name[entry.name] = entry
        if self.prefix + "data.pkl" not in self.by_name:
            raise Damaged(path, "unparseable", "a zip archive that PyTorch did not write: it has no data.pkl")
        self.sums: dict[str, Any] = {}
        sums = self.by_name.get(self.prefix + SUMS)
        if sums:
            if look:
                look(sums.offset, sums.packed)
            self.sums = self._json(self.prefix + SUMS)
        self.ours = self.sums.get("schema") == SCHEMA
        self.facts: Mapping[str, Any] = self.sums.get("facts", {}) if self.ours else {}

    def small(self, name: str) -> bytes:
        """The bytes of a small entry below the archive's folder, b"" if it does not exist."""
        entry = self.by_name.get(self.prefix + name)
        return torch_entries.read_all(self.data, entry, LIMIT_PICKLE_BYTES, self.path, self.read) if entry else b""

    def _json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(
                torch_entries.read_all(self.data, self.by_name[name], _LIMIT_SMALL_BYTES, self.path).decode("utf-8")
            )
        except ValueError:
            raise Damaged(self.path, "corrupt", f"{name} is no JSON") from None
        return value if isinstance(value, dict) else {}

    def damages(self, crc: bool = True, see: See | None = None, keep: bool = False) -> list[str]:
        """Read every entry once and report damage, by its CRC or, in our files, its sha256. `see`: as in `walk`.
        `keep`: the data is used next, so its pages stay mapped; large entries are then checked two at a time.
        """
        rows = {row[0]: row for row in self.sums.get("pieces", [])} if self.ours and crc else {}
        judge = functools.partial(self._judge, rows, crc, see)
        out, of_sums, passed = [], [], 0
        verdicts = self._in_threads(judge) if keep else map(judge, self.entries)
        for entry, (by_crc, by_sums) in zip(self.entries, verdicts):
            out += by_crc
            of_sums += by_sums
            passed += entry.bytes
            if passed > _RELEASE_BYTES and not keep:
                torch_entries.release(self.data)
                passed = 0
        if not keep:
            torch_entries.release(self.data)
        of_sums += [f"{name} is missing" for name in sorted(rows.keys() - self.by_name.keys())]
        if self.ours and crc:
            out += of_sums or torch_write.frame_problems(self.data, self.entries)
        return out

    def _in_threads(self, judge: Callable[[Entry], Verdict]) -> Iterator[Verdict]:
        """The result of `judge` for each entry, in order."""
        with ThreadPoolExecutor(_CHECKERS) as pool:
            large = {e.header: pool.submit(judge, e) for e in self.entries if e.bytes > torch_entries.CHUNK}
            for entry in self.entries:
                yield large[entry.header].result() if entry.header in large else judge(entry)

    def _judge(self, rows: Mapping[str, Any], crc: bool, see: See | None, entry: Entry) -> Verdict:
        """What is wrong with an entry, by the directory and by its row of the sums."""
        row = rows.get(entry.name)
        by_crc: list[str] = []
        by_sums: list[str] = []
        if self.ours and crc and entry.name != self.prefix + SUMS and (row is None or row[1] != entry.bytes):
            by_sums.append(f"{entry.name} is not what the sums say")
            row = None
        h = hashlib.sha256() if row and row[2] else None
        key = entry.name[len(self.prefix) + 5 :] if entry.name.startswith(self.prefix + "data/") else ""
        total = check = 0
        try:
            for piece in torch_entries.content(self.data, entry, self.read):
                if crc:
                    check = crc32(piece, check)
                if h:
                    h.update(piece)
                if see and key:
                    see(key, total, piece)
                total += len(piece)
        except zlib.error as e:
            return [f"{entry.name} does not inflate: {e}"], by_sums
        if total != entry.bytes:
            by_crc.append(f"{entry.name} has {total} bytes, its directory says {entry.bytes}")
        elif crc and check != entry.crc32:
            by_crc.append(f"{entry.name} is damaged (CRC)")
        if h and row and h.hexdigest() != row[2]:
            by_sums.append(f"{entry.name} is damaged (sha256)")
        return by_crc, by_sums

    def pickled(self, loads: Loads = torch_unpickle.loads) -> torch_unpickle.Pickled:
        """The decoded pickle, whose tensors view the map. Raises: Damaged."""
        order = self.small("byteorder").decode("ascii", "replace").strip()
        if order and order != sys.byteorder:
            raise Damaged(self.path, "unsupported", f"written on a machine of the other byte order ({order})")
        kept: dict[str, Storage] = {}
        arrays, locations = self.sums.get("arrays", {}), self.sums.get("locations", {})

        def storage(key: str, location: str, size_bytes: int) -> Storage:
            if key not in kept:
                entry = self.by_name.get(f"{self.prefix}data/{key}")
                if entry is None:
                    raise Damaged(self.path, "corrupt", f"the bytes of storage {key} are not in it")
                if entry.bytes != size_bytes:
                    text = f"storage {key} has {entry.bytes} bytes, its pickle says {size_bytes}"
                    raise Damaged(self.path, "corrupt", text)
                where = locations.get(key, location)
                view = functools.partial(self._view, entry)
                kept[key] = Storage(size_bytes, view, key, where, arrays.get(key), is_mapped=not entry.method)
            return kept[key]

        try:
            return loads(self.small("data.pkl"), storage)
        except ValueError as e:
            raise Damaged(self.path, "corrupt", str(e)) from None

    def _view(self, entry: Entry) -> memoryview:
        if not entry.method:
            return self.data[entry.offset : entry.offset + entry.bytes]
        return memoryview(bytearray(torch_entries.read_all(self.data, entry, entry.bytes, self.path)))


__all__ = [
    "DTYPES",
    "Damaged",
    "Entry",
    "Made",
    "Name",
    "Opened",
    "Storage",
    "Structure",
    "Tensor",
    "facts",
    "is_ours",
    "read_zip",
    "walk",
]
