"""Reads PyTorch files from before 1.6 (and from `_use_new_zipfile_serialization=False`) without PyTorch; runs nothing.

Layout: pickles of a magic number, of the protocol 1001, of facts about the machine, of the tree, and of the list of
storage keys; then for each key, in that order, its number of elements (8 bytes) and its bytes, up to the end.
Source: torch.serialization._legacy_save and _legacy_load, PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import functools
import mmap
import sys
from typing import AbstractSet, Any, Callable, Dict, NamedTuple, Optional, Tuple

from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch.values import DTYPES, Storage, Tensor, tensors

MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_PROTOCOL = 1001
_PICKLE_LIMIT_BYTES = 64 << 20
More = Callable[[bytes, int, Any], Optional[Tuple[torch_unpickle.Pickled, int]]]


class Legacy(NamedTuple):
    """The file's contents: its `tree`, and (path in the tree, Tensor) of every tensor, as views of a private map."""

    tree: Any
    tensors: Tuple[Tuple[str, Tensor], ...]
    classes: Tuple[str, ...] = ()  # named in it, but not built
    remarks: Tuple[str, ...] = ()


class _Kept(Storage):
    """A storage whose position is known once the tree is read."""

    data = memoryview(b"")


def read_legacy(path: str, more: More | None = None) -> Legacy:
    """The contents of the file at `path`, with every size and end checked.

    `more` decodes a tree (from its bytes and offset) with globals beyond those PyTorch allows; None: such a tree is
    unsafe.

    Raises: Unloadable (empty, truncated, corrupt, unsafe, unsupported), OSError.
    """
    with open(path, "rb") as f:
        f.seek(0, 2)
        if not f.tell():
            raise Unloadable("empty", "the file has no bytes")
        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise Unloadable("corrupt", "it does not start like a PyTorch file")
    kept: Dict[str, _Kept] = {}

    def storage(key: str, location: str, size_bytes: int) -> Storage:
        if key in kept and kept[key].bytes != size_bytes:
            raise ValueError("storage {} has two sizes".format(key))
        if key not in kept:
            found = _Kept(size_bytes, lambda: memoryview(b""), key, location)
            found.view = functools.partial(_view, found)
            kept[key] = found
        return kept[key]

    head = bytes(data[: _PICKLE_LIMIT_BYTES + 1])
    version, at = _pickle(head, len(MAGIC), storage, "protocol")
    if version.tree != _PROTOCOL:
        raise Unloadable("corrupt", "its protocol is {}, not {}".format(str(version.tree)[:20], _PROTOCOL))
    machine, at = _pickle(head, at, storage, "machine")
    if not isinstance(machine.tree, dict) or "little_endian" not in machine.tree:
        raise Unloadable("corrupt", "what it says about its machine is damaged")
    if machine.tree["little_endian"] is not (sys.byteorder == "little"):
        raise Unloadable("unsupported", "written on a machine of the other byte order")
    tree, at = _tree(head, at, storage, more)
    keys, at = _pickle(head, at, storage, "storages")
    _refuse({*tree.unsafe, *machine.unsafe, *keys.unsafe, *version.unsafe})
    if not isinstance(keys.tree, list) or sorted(map(str, keys.tree)) != sorted(kept):
        raise Unloadable("corrupt", "its list of storages is not that of its tensors")
    _place(data, at, [kept[key] for key in keys.tree])
    found = (*tensors(tree.tree), *tensors(tree.beside, "state"))
    for name, tensor in found:
        if tensor.problem():
            raise Unloadable("corrupt", "{}: {}".format(name[:80], tensor.problem()))
    return Legacy(tree.tree, found, tuple(tree.classes), tree.remarks)


def _tree(head: bytes, at: int, storage: Any, more: More | None) -> Tuple[torch_unpickle.Pickled, int]:
    try:
        tree, end = _pickle(head, at, storage, "tree")
        if not tree.unsafe or not more:
            return tree, end
    except Unloadable as error:
        if error.problem not in ("unsafe", "corrupt") or not more:
            raise
        found = more(head, at, storage)
        if found is None:
            raise
        return found
    return more(head, at, storage) or (tree, end)


def _pickle(head: bytes, at: int, storage: Any, what: str) -> Tuple[torch_unpickle.Pickled, int]:
    machine = torch_unpickle.Machine(head, storage)
    machine.at = at
    try:
        return torch_unpickle.Pickled(machine.run(), machine.globals), machine.at
    except (ValueError, *torch_unpickle.MALFORMED) as error:
        if len(head) > _PICKLE_LIMIT_BYTES:
            raise Unloadable("unsupported", "a pickle of more than {} bytes".format(_PICKLE_LIMIT_BYTES)) from None
        if "cut off" in str(error) or "subsection not found" in str(error):
            raise Unloadable("truncated", "it ends inside its pickle of the {}".format(what)) from None
        _refuse(machine.globals - torch_unpickle.SAFE)
        raise Unloadable("corrupt", "its pickle of the {}: {}".format(what, error)) from None


def _refuse(foreign: AbstractSet[str]) -> None:
    """Raises: Unloadable("unsafe") if there are such globals. What they make unreadable is not called damaged."""
    names = sorted(foreign)
    if names:
        text = ", ".join(names[:5])[:300] + (" ..." if len(names) > 5 else "")
        raise Unloadable("unsafe", "it cannot be judged safely: loading it would call {}".format(text))


def _place(data: memoryview, at: int, storages: Any) -> None:
    for storage in storages:
        count = int.from_bytes(data[at : at + 8], "little")
        if at + 8 > len(data):
            raise Unloadable("truncated", "it ends before storage {}".format(storage.key))
        at += 8
        if not count and storage.bytes or count and storage.bytes % count:
            raise Unloadable(
                "corrupt", "storage {} has {} elements, not what its tensor says".format(storage.key, count)
            )
        if count and storage.bytes // count not in {width for width, _ in DTYPES.values()}:
            raise Unloadable(
                "corrupt", "storage {} has {} elements, not what its tensor says".format(storage.key, count)
            )
        if at + storage.bytes > len(data):
            raise Unloadable("truncated", "it ends inside storage {}".format(storage.key))
        storage.data, storage.begin = data, at
        at += storage.bytes
    if at < len(data):
        raise Unloadable("corrupt", "{} bytes follow its last storage".format(len(data) - at))


def _view(storage: _Kept) -> memoryview:
    return storage.data[storage.begin : storage.begin + storage.bytes]
