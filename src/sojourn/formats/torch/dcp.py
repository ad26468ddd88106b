"""Reads folders of torch.distributed.checkpoint without PyTorch: `.metadata` lists the tensors, and the `*.distcp` file
and offset of each part's bytes. `.metadata` is a pickle; nothing in it is ever run.

Source: torch/distributed/checkpoint/{metadata,filesystem,planner_helpers}.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import functools
import pickle
from collections import OrderedDict
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Tuple

from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch.unpickle import Machine
from sojourn.formats.torch.values import Damaged, Made, Name, Storage, Tensor, tensors

NAME = ".metadata"
LIMIT_BYTES = 32 << 20  # parsed, it takes about ten times that
# Exactly what `.metadata` may name; none of it is called here, and DCP itself, which unpickles it, runs only these.
_CLASSES = """
    Metadata TensorStorageMetadata BytesStorageMetadata TensorProperties ChunkStorageMetadata MetadataIndex StorageMeta
    _MEM_FORMAT_ENCODING
"""
_OTHERS = """
    torch.distributed.checkpoint.filesystem._StorageInfo torch.distributed.checkpoint.filesystem._StoragePrefix
    torch.distributed._shard.sharded_tensor.metadata.TensorProperties
    torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING
    pathlib.PosixPath pathlib.WindowsPath pathlib._local.PosixPath pathlib._local.WindowsPath
    torch.strided torch.sparse_coo torch.contiguous_format torch.channels_last torch.preserve_format
"""
_ALLOWED = (
    torch_unpickle.SAFE
    | frozenset("torch.distributed.checkpoint.metadata." + name for name in _CLASSES.split())
    | frozenset(_OTHERS.split())
)


class Item(NamedTuple):
    """One item in a shard file. `shape`: of this part of the tensor; None for anything else."""

    name: str
    offset: int
    bytes: int
    shape: Optional[Tuple[int, ...]]
    dtype: str
    is_plain: bool


class Checkpoint(NamedTuple):
    """The contents of `.metadata`. `files`: {relative path: items by offset}; `shapes`: {tensor: (dtype, shape)}."""

    files: Dict[str, List[Item]]
    shapes: Dict[str, Tuple[str, Tuple[int, ...]]]
    others: Tuple[str, ...]


def read_metadata(raw: bytes) -> Checkpoint:
    """`.metadata`, every part of every tensor accounted for. Raises: Unloadable (truncated, corrupt, unsafe)."""
    machine = _Reader(raw)
    try:
        root = machine.run()
    except (ValueError, *torch_unpickle.MALFORMED) as error:
        if "cut off" in str(error):
            raise Unloadable("truncated", "it ends inside its pickle") from None
        _refuse(machine.globals - _ALLOWED)
        raise Unloadable("corrupt", "its pickle is damaged: {}".format(error)) from None
    _refuse(machine.globals - _ALLOWED)
    if machine.at < len(raw):
        raise Unloadable("corrupt", "{} bytes follow its pickle".format(len(raw) - machine.at))
    try:
        return _checkpoint(_state(root))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise Unloadable("corrupt", "it is not what torch.distributed.checkpoint writes ({})".format(error)) from None


def _refuse(foreign: AbstractSet[str]) -> None:
    """Raises: Unloadable("unsafe") if there are such globals. What they make unreadable is not called damaged."""
    if foreign:
        names = ", ".join(sorted(foreign)[:5])[:300]
        raise Unloadable("unsafe", "it cannot be judged safely: loading it would call {}".format(names))


def check_files(found: Checkpoint, sizes: Dict[str, int]) -> None:
    """Every file in `.metadata` exists with its size. Raises: Unloadable("missing-shard", ...)."""
    missing = sorted(set(found.files) - set(sizes))
    if missing:
        names = ", ".join(missing[:5])
        raise Unloadable(
            "missing-shard", "{} of {} files are missing: {}".format(len(missing), len(found.files), names)
        )
    for path, items in found.files.items():
        _check_size(path, items, sizes[path])


def open_items(data: memoryview, path: str, items: List[Item]) -> List[Tuple[str, Tensor]]:
    """Every tensor in one shard file, its frame, shape and checksums compared, except the checksums of the tensors' own
    bytes, which are left to their reader (`Storage.crc32`). Raises: Unloadable.
    """
    _check_size(path, items, len(data))
    out: List[Tuple[str, Tensor]] = []
    for item in items:
        if item.is_plain:
            out += _open_item(data[item.offset : item.offset + item.bytes], item)
    return out


def _check_size(path: str, items: List[Item], size_bytes: int) -> None:
    at = 0
    for item in items:
        if item.offset != at:
            what = "overlap" if item.offset < at else "leave {} bytes to nobody".format(item.offset - at)
            raise Unloadable("corrupt", "the parts of {} {}".format(path, what))
        at += item.bytes
    if size_bytes < at:
        raise Unloadable("truncated", "{} has {} of {} bytes".format(path, size_bytes, at))
    if size_bytes > at:
        raise Unloadable("corrupt", "{} bytes follow the last part of {}".format(size_bytes - at, path))


def _open_item(data: memoryview, item: Item) -> List[Tuple[str, Tensor]]:
    short = item.name[:80]
    try:
        rows = torch_entries.entries(data, short)
    except Damaged as error:
        raise Unloadable("corrupt", "{}: {}".format(short, error.fields["detail"])) from None
    by_name = {row.name: row for row in rows}
    has_sums = any(row.crc32 for row in rows)
    prefix = rows[0].name.partition("/")[0] + "/" if rows else ""
    if prefix + "data.pkl" not in by_name:
        raise Unloadable("corrupt", "{} is not what PyTorch writes".format(short))
    _check(data, [row for row in rows if has_sums and not row.name.startswith(prefix + "data/")], short)
    kept: Dict[str, Storage] = {}

    def storage(key: str, location: str, size_bytes: int) -> Storage:
        row = by_name[prefix + "data/" + key]
        if row.packed != row.bytes or row.bytes != size_bytes:
            raise ValueError("storage {} has not the size its pickle says".format(key))
        if key not in kept:
            view = functools.partial(_part, data, row.offset, row.bytes)
            begin, crc32 = item.offset + row.offset, row.crc32 if has_sums else None
            kept[key] = Storage(size_bytes, view, key, location, begin=begin, crc32=crc32)
        return kept[key]

    try:
        raw = torch_entries.read_all(data, by_name[prefix + "data.pkl"], LIMIT_BYTES, short)
        pickled = torch_unpickle.loads(raw, storage)
    except (ValueError, Damaged) as error:
        raise Unloadable("corrupt", "{}: {}".format(short, error)) from None
    if pickled.unsafe:
        names = ", ".join(pickled.unsafe[:5])[:300]
        raise Unloadable("unsafe", "{} cannot be judged safely: loading it would call {}".format(short, names))
    found = list(tensors(pickled.tree, item.name))
    for name, tensor in found:
        if tensor.problem():
            raise Unloadable("corrupt", "{}: {}".format(name[:80], tensor.problem()))
    if item.shape is not None:
        is_it = isinstance(pickled.tree, Tensor) and pickled.tree.shape == item.shape
        if not is_it or (item.dtype and pickled.tree.dtype != item.dtype):
            raise Unloadable("corrupt", "{} has not the shape and type that .metadata says".format(short))
    shown = {prefix + "data/" + tensor.storage.key for _, tensor in found if tensor.elements}
    _check(data, [r for r in rows if has_sums and r.name.startswith(prefix + "data/") and r.name not in shown], short)
    return found


def _check(data: memoryview, rows: List[torch_entries.Entry], name: str) -> None:
    for row in rows:
        why = torch_entries.damage(data, row)
        if why:
            raise Unloadable("corrupt", "{}: {}".format(name, why))


def _part(data: memoryview, begin: int, size_bytes: int) -> memoryview:
    return data[begin : begin + size_bytes]


def _checkpoint(root: Dict[str, Any]) -> Checkpoint:
    kinds = {name: (kind.name.rpartition(".")[2], _state(kind)) for name, kind in root["state_dict_metadata"].items()}
    shapes: Dict[str, Tuple[str, Tuple[int, ...]]] = {}
    owed: Dict[Tuple[str, Optional[Tuple[int, ...]]], Tuple[str, Optional[Tuple[int, ...]]]] = {}
    for name, (kind, state) in kinds.items():
        if kind != "TensorStorageMetadata":
            owed[(name, None)] = ("", None)
            continue
        shape, dtype = _sizes(state["size"]), _dtype(state["properties"])
        shapes[name] = (dtype, shape)
        parts = [_state(chunk) for chunk in state["chunks"]]
        if sum(_volume(_sizes(part["sizes"])) for part in parts) != _volume(shape):
            raise Unloadable("corrupt", "the parts of {} do not make the whole tensor".format(name[:80]))
        for part in parts:
            owed[(name, _sizes(part["offsets"]))] = (dtype, _sizes(part["sizes"]))
    files: Dict[str, List[Item]] = {}
    for index, info in root["storage_data"].items():
        which, where = _state(index), _state(info)
        begins = which.get("offset")  # left out if None
        key = (which["fqn"], None if begins is None else _sizes(begins))
        if key not in owed:
            raise Unloadable("corrupt", "it says where {} lies, and not what it is".format(str(key[0])[:80]))
        dtype_, shape_ = owed.pop(key)
        path = where["relative_path"]
        if path.startswith("/") or ".." in path.split("/") or "\\" in path:
            raise Unloadable("escapes-root", "it names a file {!r}".format(path[:80]))
        is_plain = not where.get("transform_descriptors")
        if type(where["offset"]) is not int or type(where["length"]) is not int or where["length"] < 0:
            raise ValueError("no place")
        item = Item(key[0], where["offset"], where["length"], shape_, dtype_, is_plain)
        files.setdefault(path, []).append(item)
    if owed:
        names = ", ".join(sorted(name for name, _ in owed)[:5])[:300]
        raise Unloadable("corrupt", "it does not say where {} parts lie: {}".format(len(owed), names))
    for items in files.values():
        items.sort(key=lambda item: (item.offset, item.bytes))
    others = tuple(name for name, (kind, _) in kinds.items() if kind != "TensorStorageMetadata")
    return Checkpoint(files, shapes, others)


def _state(made: Any) -> Dict[str, Any]:
    """The fields of a dataclass as they were pickled: a dict, or (dict or None, slots)."""
    state = made.state
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        return {**(state[0] or {}), **state[1]}
    return state if isinstance(state, dict) else {}


def _dtype(properties: Any) -> str:
    state = properties.state
    name = state[0] if isinstance(state, tuple) else _state(properties).get("dtype")
    return name.full.rpartition(".")[2] if isinstance(name, Name) else ""


def _sizes(value: Any) -> Tuple[int, ...]:
    sizes = tuple(value)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a shape that is no list of sizes")
    return sizes


def _volume(shape: Tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


class _Reader(Machine):
    """The machine with the additions of protocols 4 and 5; it still calls nothing."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _no_storage)
        self.steps = {**torch_unpickle.STEPS, **_MORE}

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a global without a name")
        self.globals.add(module + "." + name)
        self.push(Name(module + "." + name))

    def add_items(self) -> None:
        items = self.pop_mark()
        self.stack[-1].update(items)

    def do_items(self, items: List[Any]) -> None:
        target = self.stack[-1]
        if type(target) is Made and target.name == "collections.OrderedDict":
            self.stack[-1] = OrderedDict()
        super().do_items(items)


def _no_storage(key: str, location: str, size_bytes: int) -> Storage:
    raise ValueError("a storage in .metadata")


def _sized(width: int) -> Any:
    return lambda m: m.take(int.from_bytes(m.take(width), "little"))


_MORE: Dict[bytes, Any] = {
    pickle.FRAME: lambda m: m.take(8),
    pickle.MEMOIZE: lambda m: m.put(len(m.memo)),
    pickle.STACK_GLOBAL: _Reader.stack_global,
    pickle.SHORT_BINUNICODE: lambda m: m.push(_sized(1)(m).decode("utf-8", "surrogatepass")),
    pickle.SHORT_BINBYTES: lambda m: m.push(_sized(1)(m)),
    pickle.BINBYTES: lambda m: m.push(_sized(4)(m)),
    pickle.ADDITEMS: _Reader.add_items,
}

__all__ = ["NAME", "Checkpoint", "Item", "check_files", "open_items", "read_metadata"]
